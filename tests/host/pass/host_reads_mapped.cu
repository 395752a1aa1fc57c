// The host reads mapped memory that a kernel writes, and waits for the wrong stream.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t one, two;
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaHostAlloc(&data, 64, cudaHostAllocMapped));
    memset(data, 0, 64);
    add<<<1, 16, 0, one>>>(data, 1);
    OK(cudaStreamSynchronize(one));
    if (data[0] != 1)
        return 3;
    OK(cudaDeviceSynchronize());
    OK(cudaFreeHost(data));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return 0;
}
