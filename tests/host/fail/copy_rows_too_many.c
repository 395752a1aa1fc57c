/* A copy of rows has one row too many; the last row needs no padding. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a;
    char x[32 * 8] = {0};
    OK(cuMemAlloc(&a, 64 * 4));
    CUDA_MEMCPY2D copy = {0};
    copy.srcMemoryType = 1;
    copy.srcHost = x;
    copy.srcPitch = 32;
    copy.dstMemoryType = 2;
    copy.dstDevice = a;
    copy.dstPitch = 64;
    copy.WidthInBytes = 32;
    copy.Height = 5;
    OK(cuMemcpy2D(&copy)); //~ copy-bounds
    OK(cuMemFree(a));
    return 0;
}
