// Makes many small launches. `cargo xtask bench exec` runs it.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

extern "C" __global__ void add(int *data, int number) { data[threadIdx.x] += number; }

int main(int, char **arguments) {
    int *data;
    if (cudaMalloc(&data, 256 * sizeof(int)) != cudaSuccess || cudaMemset(data, 0, 256 * sizeof(int)) != cudaSuccess)
        return 2;
    for (int i = 0; i < atoi(arguments[1]); i++)
        add<<<1, 256>>>(data, i);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 2;
    return cudaFree(data) == cudaSuccess ? 0 : 2;
}
