/* A copy is longer than its device memory. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    int x[32] = {0};
    OK(cuMemAlloc(&a, sizeof x));
    OK(cuMemcpyHtoD(a, x, sizeof x));
    OK(cuMemFree(a));
    return 0;
}
