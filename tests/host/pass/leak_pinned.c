/* Pinned memory that is never freed; the other program frees it when it ends. */
#include "../driver.h"

static void *p;

static void at_end(void)
{
    OK(cuMemFreeHost(p));
}

int main(void)
{
    /* Registered before the driver is used, so it runs late. */
    atexit(at_end);
    start();
    OK(cuMemAllocHost(&p, 1 << 16));
    return 0;
}
