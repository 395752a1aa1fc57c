/* A finding in a kernel names the line of its launch. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    CUfunction add = kernel("add");
    OK(cuMemAlloc(&a, 128));
    OK(cuMemsetD32(a, 0, 32));
    unsigned n = 1;
    void *arguments[] = {&a, &n};
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        return 3;
    OK(cuMemFree(a));
    return 0;
}
