/* A copy is longer than its pinned memory, which a GPU would overwrite. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    void *p;
    OK(cuMemAlloc(&a, 128));
    OK(cuMemAllocHost(&p, 64));
    OK(cuMemsetD8(a, 1, 128));
    OK(cuMemcpyDtoH(p, a, 128)); //~ copy-bounds
    OK(cuMemFreeHost(p));
    OK(cuMemFree(a));
    return 0;
}
