// A copy in one stream reads what a kernel of another stream writes.
#include "../runtime.h"

int main() {
    int *data, *host;
    cudaStream_t compute, transfer;
    OK(cudaStreamCreate(&compute));
    OK(cudaStreamCreate(&transfer));
    OK(cudaMalloc(&data, 64));
    OK(cudaMallocHost(&host, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaDeviceSynchronize());
    add<<<1, 16, 0, compute>>>(data, 1);
    OK(cudaStreamSynchronize(compute));
    OK(cudaMemcpyAsync(host, data, 64, cudaMemcpyDeviceToHost, transfer));
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFreeHost(host));
    OK(cudaStreamDestroy(compute));
    OK(cudaStreamDestroy(transfer));
    return 0;
}
