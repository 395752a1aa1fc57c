/* Memory of malloc is freed as device memory. */
#include "../driver.h"

int main(void)
{
    start();
    int *p = malloc(64);
    OK(cuMemFree((CUdeviceptr)p)); //~ invalid-free
    free(p);
    return 0;
}
