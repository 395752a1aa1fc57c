/* The pointers of a copy are swapped. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    int x[16] = {0};
    OK(cuMemAlloc(&a, sizeof x));
    OK(cuMemcpyHtoD(a, x, sizeof x));
    OK(cuMemFree(a));
    return 0;
}
