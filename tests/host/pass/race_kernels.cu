// Kernels of two streams change the same memory.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t one, two;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaDeviceSynchronize());
    add<<<1, 16, 0, one>>>(data, 1);
    OK(cudaStreamSynchronize(one));
    add<<<1, 16, 0, two>>>(data, 1);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return 0;
}
