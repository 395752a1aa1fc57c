/* An event is recorded before the work that it should cover. */
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
    CUevent e;
    OK(cuEventCreate(&e, 0));
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, s, arguments, NULL));
    OK(cuEventRecord(e, s));
    OK(cuEventSynchronize(e));
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, t, arguments, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemFree(a));
    return 0;
}
