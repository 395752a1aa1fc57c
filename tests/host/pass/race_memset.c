/* A kernel of a non-blocking stream does not wait for a memset of the default stream. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    CUstream s;
    CUfunction add = kernel("add");
    /* A blocking stream waits for the default stream. */
    OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&a, 64));
    OK(cuMemsetD32(a, 0, 16));
    unsigned n = 1;
    void *arguments[] = {&a, &n};
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, s, arguments, NULL));
    OK(cuStreamSynchronize(s));
    OK(cuMemFree(a));
    return 0;
}
