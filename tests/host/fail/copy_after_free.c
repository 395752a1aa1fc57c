/* A copy reads memory that was freed. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    int x[16] = {0};
    OK(cuMemAlloc(&a, sizeof x));
    OK(cuMemcpyHtoD(a, x, sizeof x));
    OK(cuMemFree(a));
    OK(cuMemcpyDtoH(x, a, sizeof x)); //~ use-after-free
    return 0;
}
