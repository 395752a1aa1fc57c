/* A copy is longer than its device memory. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    int x[32] = {0};
    OK(cuMemAlloc(&a, 64));
    OK(cuMemcpyHtoD(a, x, sizeof x)); //~ copy-bounds
    OK(cuMemFree(a));
    return 0;
}
