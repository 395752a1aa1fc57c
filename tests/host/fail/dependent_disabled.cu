// The launch asks for overlap, but the wait is not compiled into the kernel, because a macro is missing (flashinfer #2708, cccl #9134).
// The first kernel lets the next one start when its blocks end, which is before its stores are visible.
//@device: h100
#include "../dependent.h"

static __device__ void wait_for_prerequisites() {
#ifdef ENABLE_GRID_DEPENDENCIES
    cudaGridDependencySynchronize();
#endif
}

static __global__ void quantize(const float *values, signed char *codes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    codes[i] = (signed char)rintf(values[i] * 127);
}

static __global__ void multiply(const signed char *codes, int *out) {
    wait_for_prerequisites();
    int sum = 0;
    for (int i = 0; i < 32; i++) sum += codes[threadIdx.x * 32 + i] * codes[blockIdx.x * 32 + i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
    float *values;
    signed char *codes;
    int *out;
    OK(cudaMalloc(&values, 4096));
    OK(cudaMalloc(&codes, 1024));
    OK(cudaMalloc(&out, 4096));
    OK(cudaMemset(values, 0, 4096));
    quantize<<<8, 128>>>(values, codes);
    DEPENDENT(multiply, 32, 32, 0, codes, out); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(values));
    OK(cudaFree(codes));
    OK(cudaFree(out));
    return 0;
}
