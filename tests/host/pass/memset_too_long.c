/* A memset counts bytes instead of elements. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    OK(cuMemAlloc(&a, 64));
    /* The count is in elements. */
    OK(cuMemsetD32(a, 0, 64 / 4));
    OK(cuMemFree(a));
    return 0;
}
