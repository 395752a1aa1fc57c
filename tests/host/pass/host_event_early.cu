// The host waits for an event that was recorded before the copy.
#include "../runtime.h"

int main() {
    int *data, *host;
    cudaEvent_t copied;
    OK(cudaEventCreate(&copied));
    OK(cudaMalloc(&data, 64));
    OK(cudaMallocHost(&host, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaMemcpyAsync(host, data, 64, cudaMemcpyDeviceToHost, 0));
    OK(cudaEventRecord(copied, 0));
    OK(cudaEventSynchronize(copied));
    int first = host[0];
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFreeHost(host));
    OK(cudaEventDestroy(copied));
    return first;
}
