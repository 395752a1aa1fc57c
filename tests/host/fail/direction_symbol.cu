// A copy from device memory to a variable is declared as one from the host.
#include "../runtime.h"

static __device__ int table[16];

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaMemcpyToSymbol(table, data, 64, 0, cudaMemcpyHostToDevice)); //~ invalid-copy-direction
    OK(cudaFree(data));
    return 0;
}
