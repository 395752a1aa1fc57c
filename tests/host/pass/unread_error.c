/* A kernel fails, and no later call could return its error. */
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
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemFree(a));
    return 0;
}
