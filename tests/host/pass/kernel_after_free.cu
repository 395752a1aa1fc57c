// A kernel uses memory that was freed.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    add<<<1, 16>>>(data, 1);
    cudaError_t error = cudaDeviceSynchronize();
    OK(cudaFree(data));
    return error == cudaSuccess ? 0 : 3;
}
