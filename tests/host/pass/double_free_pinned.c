/* Pinned memory is freed twice. */
#include "../driver.h"

int main(void)
{
    start();
    void *p;
    for (int i = 0; i < 4; i++) {
        OK(cuMemAllocHost(&p, 64));
        OK(cuMemFreeHost(p));
    }
    return 0;
}
