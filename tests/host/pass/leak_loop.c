/* Ten allocations of one place are one finding. */
#include "../driver.h"

static CUdeviceptr make(void)
{
    CUdeviceptr made;
    OK(cuMemAlloc(&made, 256));
    return made;
}

int main(void)
{
    start();
    for (int i = 0; i < 10; i++)
        make();
    /* A destroyed context frees its memory. */
    OK(cuCtxDestroy(context));
    return 0;
}
