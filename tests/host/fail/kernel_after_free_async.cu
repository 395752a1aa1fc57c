// A kernel uses memory that its stream freed before.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocAsync(&data, 64, stream));
    OK(cudaMemsetAsync(data, 0, 64, stream));
    OK(cudaFreeAsync(data, stream));
    add<<<1, 16, 0, stream>>>(data, 1); //~ use-after-free
    cudaError_t error = cudaStreamSynchronize(stream);
    OK(cudaStreamDestroy(stream));
    return error == cudaSuccess ? 0 : 3;
}
