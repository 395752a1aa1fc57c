/* Memory of malloc is freed as device memory. */
#include "../driver.h"

int main(void)
{
    start();
    int *p = malloc(64);
    free(p);
    return 0;
}
