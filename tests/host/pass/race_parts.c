/* Two streams work on parts of one allocation that overlap by one element. */
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
    CUdeviceptr half = a + 32;
    void *second[] = {&half, &n};
    OK(cuLaunchKernel(add, 1, 1, 1, 8, 1, 1, 0, s, arguments, NULL));
    OK(cuLaunchKernel(add, 1, 1, 1, 8, 1, 1, 0, t, second, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemFree(a));
    return 0;
}
