// The second kernel clears a buffer before it waits, and the first kernel still reads the buffer.
//@device: h100
#include "../dependent.h"

static __global__ void sum(const int *values, int *total) {
    cudaTriggerProgrammaticLaunchCompletion();
    int all = 0;
    for (int i = threadIdx.x; i < 256; i += 32) all += values[i];
    for (int step = 16; step > 0; step /= 2) all += __shfl_down_sync(0xffffffff, all, step);
    if (threadIdx.x == 0) *total = all;
}

static __global__ void refill(int *values, const int *total) {
    values[threadIdx.x] = 0;
    cudaGridDependencySynchronize();
    values[threadIdx.x] += *total;
}

int main() {
    int *values, *total;
    OK(cudaMalloc(&values, 1024));
    OK(cudaMalloc(&total, 4));
    OK(cudaMemset(values, 0, 1024));
    sum<<<1, 32>>>(values, total);
    DEPENDENT(refill, 1, 256, 0, values, total); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(values));
    OK(cudaFree(total));
    return 0;
}
