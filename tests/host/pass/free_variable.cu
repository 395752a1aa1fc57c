// The free gets the address of a variable.
#include "../runtime.h"

static __device__ int table[16];

int main() {
    void *address;
    OK(cudaGetSymbolAddress(&address, table));
    OK(cudaMemset(address, 0, sizeof table));
    return 0;
}
