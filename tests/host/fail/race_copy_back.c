/* A result is copied before its kernel is complete. */
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
    int x[16];
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, s, arguments, NULL));
    /* The default stream does not wait for a non-blocking stream. */
    OK(cuMemcpyDtoH(x, a, sizeof x)); //~ stream-race
    OK(cuMemFree(a));
    OK(cuStreamDestroy(t));
    return 0;
}
