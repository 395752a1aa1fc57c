/* One stream frees memory that another stream still uses. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    CUstream s, t;
    CUfunction add = kernel("add");
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&a, 64, s));
    OK(cuMemsetD32Async(a, 0, 16, s));
    unsigned n = 1;
    void *arguments[] = {&a, &n};
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, s, arguments, NULL));
    OK(cuMemFreeAsync(a, t)); //~ stream-race
    return 0;
}
