// Pinned memory is freed while a copy may still read it.
#include "../runtime.h"

int main() {
    int *data, *host;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&data, 64));
    OK(cudaMallocHost(&host, 64));
    memset(host, 0, 64);
    OK(cudaMemcpyAsync(data, host, 64, cudaMemcpyHostToDevice, stream));
    OK(cudaFreeHost(host)); //~ stream-race
    OK(cudaStreamSynchronize(stream));
    OK(cudaFree(data));
    OK(cudaStreamDestroy(stream));
    return 0;
}
