// The second kernel reads what the first writes, and does not wait for it.
//@device: h100
#include "../dependent.h"

static __global__ void produce(float *values) {
    cudaTriggerProgrammaticLaunchCompletion();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    values[i] = i;
}

static __global__ void consume(const float *values, float *doubled) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = values[i];
    cudaGridDependencySynchronize();
    doubled[i] = 2 * value;
}

int main() {
    float *values, *doubled;
    OK(cudaMalloc(&values, 512));
    OK(cudaMalloc(&doubled, 512));
    produce<<<4, 32>>>(values);
    DEPENDENT(consume, 4, 32, 0, values, doubled); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(values));
    OK(cudaFree(doubled));
    return 0;
}
