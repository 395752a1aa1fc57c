// The free gets memory of `malloc`.
#include "../runtime.h"

int main() {
    void *data = malloc(64);
    OK(cudaFree(data)); //~ invalid-free
    free(data);
    return 0;
}
