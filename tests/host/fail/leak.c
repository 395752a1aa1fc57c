/* Device memory that is never freed. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a, b;
    OK(cuMemAlloc(&a, 1024)); //~ memory-leak
    OK(cuMemAlloc(&b, 4096));
    OK(cuMemFree(b));
    return 0;
}
