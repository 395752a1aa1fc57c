/* The same memory is freed twice. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a, b;
    OK(cuMemAlloc(&a, 64));
    OK(cuMemFree(a));
    OK(cuMemAlloc(&b, 64));
    OK(cuMemFree(b));
    /* Null is allowed. */
    OK(cuMemFree(0));
    return 0;
}
