// The host reads the destination of a copy that may not be complete.
#include "../runtime.h"

int main() {
    int *data, *host;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&data, 64));
    OK(cudaMallocHost(&host, 64));
    OK(cudaMemsetAsync(data, 1, 64, stream));
    OK(cudaMemcpyAsync(host, data, 64, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    printf("%d\n", host[0]);
    OK(cudaStreamSynchronize(stream));
    OK(cudaFree(data));
    OK(cudaFreeHost(host));
    OK(cudaStreamDestroy(stream));
    return 0;
}
