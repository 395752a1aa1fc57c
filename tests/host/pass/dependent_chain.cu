// The third kernel waits for the second, which has not waited for the first: nothing orders the third after the first.
//@device: h100
#include "../dependent.h"

static __global__ void scales(float *scale) {
    cudaTriggerProgrammaticLaunchCompletion();
    scale[threadIdx.x] = 0.5f;
}

static __global__ void fill(float *values) {
    cudaTriggerProgrammaticLaunchCompletion();
    values[blockIdx.x * blockDim.x + threadIdx.x] = 3;
    cudaGridDependencySynchronize();
}

static __global__ void apply(float *values, const float *scale) {
    cudaGridDependencySynchronize();
    values[blockIdx.x * blockDim.x + threadIdx.x] *= scale[threadIdx.x];
}

int main() {
    float *values, *scale;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&values, 1024));
    OK(cudaMalloc(&scale, 256));
    scales<<<1, 64, 0, stream>>>(scale);
    DEPENDENT(fill, 4, 64, stream, values);
    DEPENDENT(apply, 4, 64, stream, values, scale);
    OK(cudaStreamSynchronize(stream));
    OK(cudaFree(values));
    OK(cudaFree(scale));
    OK(cudaStreamDestroy(stream));
    return 0;
}
