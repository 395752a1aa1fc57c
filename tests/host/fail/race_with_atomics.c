/* The host waits for one of two streams that add to a sum. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a, sum;
    CUstream s, t;
    CUfunction total = kernel("total");
    unsigned result;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&a, 64));
    OK(cuMemAlloc(&sum, 4));
    OK(cuMemsetD32(a, 1, 16));
    OK(cuMemsetD32(sum, 0, 1));
    OK(cuCtxSynchronize());
    void *arguments[] = {&a, &sum};
    /* Atomics of two streams do not race with each other. */
    OK(cuLaunchKernel(total, 1, 1, 1, 16, 1, 1, 0, s, arguments, NULL));
    OK(cuLaunchKernel(total, 1, 1, 1, 16, 1, 1, 0, t, arguments, NULL));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(&result, sum, 4)); //~ stream-race
    OK(cuMemFree(a));
    OK(cuMemFree(sum));
    return 0;
}
