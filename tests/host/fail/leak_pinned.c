/* Pinned memory that is never freed; the other program frees it when it ends. */
#include "../driver.h"

int main(void)
{
    start();
    void *p;
    OK(cuMemAllocHost(&p, 1 << 16)); //~ memory-leak
    return 0;
}
