/* Pinned memory is freed by the function for device memory. */
#include "../driver.h"

int main(void)
{
    start();
    void *p;
    OK(cuMemAllocHost(&p, 64));
    OK(cuMemFreeHost(p));
    return 0;
}
