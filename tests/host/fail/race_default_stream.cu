// The default stream does not wait for a non-blocking stream.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaDeviceSynchronize());
    add<<<1, 16, 0, stream>>>(data, 1);
    add<<<1, 16>>>(data, 1); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaStreamDestroy(stream));
    return 0;
}
