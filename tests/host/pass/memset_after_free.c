/* A memset writes memory that was freed. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    OK(cuMemAlloc(&a, 64));
    OK(cuMemsetD32(a, 0, 16));
    OK(cuMemFree(a));
    return 0;
}
