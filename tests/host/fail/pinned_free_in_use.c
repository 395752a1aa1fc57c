/* Pinned memory is freed while a copy may still write it. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    CUstream s, t;
    CUfunction add = kernel("add");
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&a, 64));
    OK(cuMemsetD32(a, 0, 16));
    OK(cuCtxSynchronize());
    unsigned n = 1;
    void *arguments[] = {&a, &n};
    void *p;
    OK(cuMemAllocHost(&p, 64));
    OK(cuMemcpyDtoHAsync(p, a, 64, s));
    OK(cuMemFreeHost(p)); //~ stream-race
    OK(cuStreamSynchronize(t));
    OK(cuMemFree(a));
    (void)add, (void)arguments;
    return 0;
}
