/* The same memory is freed twice. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    OK(cuMemAlloc(&a, 64));
    OK(cuMemFree(a));
    OK(cuMemFree(a)); //~ double-free
    return 0;
}
