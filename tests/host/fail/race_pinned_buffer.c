/* A pinned buffer is the source of a copy while another copy writes it. */
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
    OK(cuMemcpyHtoDAsync(a, p, 64, t)); //~ stream-race
    OK(cuCtxSynchronize());
    OK(cuMemFreeHost(p));
    OK(cuMemFree(a));
    (void)add, (void)arguments;
    return 0;
}
