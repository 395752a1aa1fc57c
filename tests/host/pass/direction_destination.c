/* A host pointer as the device destination of a copy. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a, m;
    int x[16] = {0};
    OK(cuMemAlloc(&a, sizeof x));
    OK(cuMemsetD8(a, 0, sizeof x));
    /* Managed memory can be either side. */
    OK(cuMemAllocManaged(&m, sizeof x, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemcpyDtoH((void *)m, a, sizeof x));
    OK(cuMemcpyHtoD(m, x, sizeof x));
    OK(cuMemcpyHtoD(a, (void *)m, sizeof x));
    OK(cuMemFree(m));
    OK(cuMemFree(a));
    return 0;
}
