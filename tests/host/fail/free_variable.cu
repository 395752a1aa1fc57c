// The free gets the address of a variable.
#include "../runtime.h"

static __device__ int table[16];

int main() {
    void *address;
    OK(cudaGetSymbolAddress(&address, table));
    OK(cudaFree(address)); //~ invalid-free
    return 0;
}
