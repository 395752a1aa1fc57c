/* A memset counts bytes instead of elements. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    OK(cuMemAlloc(&a, 64));
    OK(cuMemsetD32(a, 0, 64)); //~ copy-bounds
    OK(cuMemFree(a));
    return 0;
}
