/* Memory of a pool is freed twice. */
#include "../driver.h"

int main(void)
{
    start();
    CUstream s;
    CUdeviceptr a;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&a, 64, s));
    OK(cuMemFreeAsync(a, s));
    return 0;
}
