// One warp waits, and another one reads without a barrier between them.
//@device: h100
#include "../dependent.h"

static __global__ void produce(int *values) {
    cudaTriggerProgrammaticLaunchCompletion();
    values[threadIdx.x] = threadIdx.x;
}

static __global__ void consume(const int *values, int *out) {
    if (threadIdx.x < 32) cudaGridDependencySynchronize();
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x];
}

int main() {
    int *values, *out;
    OK(cudaMalloc(&values, 256));
    OK(cudaMalloc(&out, 256));
    produce<<<1, 64>>>(values);
    DEPENDENT(consume, 1, 64, 0, values, out);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(values));
    OK(cudaFree(out));
    return 0;
}
