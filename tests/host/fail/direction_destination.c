/* A host pointer as the device destination of a copy. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    int x[16] = {0};
    OK(cuMemAlloc(&a, sizeof x));
    OK(cuMemsetD8(a, 0, sizeof x));
    OK(cuMemcpyHtoD((CUdeviceptr)x, x, sizeof x)); //~ invalid-copy-direction
    OK(cuMemFree(a));
    return 0;
}
