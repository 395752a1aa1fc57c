/* An address inside of an allocation is freed. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    OK(cuMemAlloc(&a, 64));
    OK(cuMemFree(a + 16)); //~ invalid-free
    OK(cuMemFree(a));
    return 0;
}
