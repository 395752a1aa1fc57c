/* Managed memory that is never freed. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr p;
    OK(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL));
    *(int *)p = 1;
    OK(cuMemFree(p));
    return 0;
}
