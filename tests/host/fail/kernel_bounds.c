/* A finding in a kernel names the line of its launch. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    CUfunction add = kernel("add");
    OK(cuMemAlloc(&a, 64));
    OK(cuMemsetD32(a, 0, 16));
    unsigned n = 1;
    void *arguments[] = {&a, &n};
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL)); //~ bounds
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        return 3;
    return 0;
}
