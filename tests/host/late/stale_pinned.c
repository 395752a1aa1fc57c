/* The host reads a pinned buffer without waiting for the copy that fills it. When work runs as late as possible, it reads old values. */
#include "../driver.h"

int main(int argc, char **argv)
{
    start();
    CUdeviceptr a;
    CUstream s;
    CUfunction add = kernel("add");
    int *p;
    unsigned n = 7;
    void *arguments[] = {&a, &n};
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&a, 64));
    OK(cuMemAllocHost((void **)&p, 64));
    OK(cuMemsetD32Async(a, 0, 16, s));
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, s, arguments, NULL));
    OK(cuMemcpyDtoHAsync(p, a, 64, s));
    if (argc > 1)
        OK(cuStreamSynchronize(s));
    int early = p[3];
    OK(cuCtxSynchronize());
    int late = p[3];
    OK(cuMemFreeHost(p));
    OK(cuMemFree(a));
    return late != 7 ? 6 : early == 7 ? 0 : 5;
}
