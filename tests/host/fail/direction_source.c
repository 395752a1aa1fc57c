/* A device pointer as the host source of a copy. */
#include "../driver.h"

int main(void)
{
    start();
    CUdeviceptr a, b;
    OK(cuMemAlloc(&a, 64));
    OK(cuMemAlloc(&b, 64));
    OK(cuMemsetD8(a, 0, 64));
    OK(cuMemcpyHtoD(b, (void *)a, 64)); //~ invalid-copy-direction
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    return 0;
}
