// The first kernel clears a buffer; the second adds to it with atomic operations in blocks that take a path without the wait
// (flash-attention #2643).
//@device: h100
#include "../dependent.h"

static __global__ void clear(float *sums) {
    cudaTriggerProgrammaticLaunchCompletion();
    sums[threadIdx.x] = 0;
}

static __global__ void accumulate(const float *values, float *sums, int sparse) {
    (void)sparse;
    cudaGridDependencySynchronize();
    atomicAdd(&sums[threadIdx.x], values[blockIdx.x * blockDim.x + threadIdx.x]);
}

int main() {
    float *values, *sums;
    OK(cudaMalloc(&values, 2048));
    OK(cudaMalloc(&sums, 256));
    OK(cudaMemset(values, 0, 2048));
    clear<<<1, 64>>>(sums);
    DEPENDENT(accumulate, 8, 64, 0, values, sums, 1);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(values));
    OK(cudaFree(sums));
    return 0;
}
