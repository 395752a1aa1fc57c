/* Pinned memory is freed twice. */
#include "../driver.h"

int main(void)
{
    start();
    void *p;
    OK(cuMemAllocHost(&p, 64));
    OK(cuMemFreeHost(p));
    OK(cuMemFreeHost(p)); //~ double-free
    return 0;
}
