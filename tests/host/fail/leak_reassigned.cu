// The only pointer to a block gets the address of another.
#include "../runtime.h"

int main() {
    int *small, *large;
    OK(cudaMalloc(&small, 64)); //~ memory-leak
    OK(cudaMalloc(&large, 4096));
    OK(cudaMemset(large, 0, 4096));
    small = large;
    add<<<1, 16>>>(small, 1);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(small));
    return 0;
}
