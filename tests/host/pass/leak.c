/* Device memory that is never freed. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a, b;
    OK(cuMemAlloc(&a, 1024));
    OK(cuMemAlloc(&b, 4096));
    OK(cuMemFree(b));
    OK(cuMemFree(a));
    return 0;
}
