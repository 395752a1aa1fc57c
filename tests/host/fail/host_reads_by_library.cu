// A function of the C library reads the destination of a copy that may not be complete.
#include "../runtime.h"

int main() {
    int *data, *host;
    std::vector<int> result(1024);
    OK(cudaMalloc(&data, 4096));
    OK(cudaMallocHost(&host, 4096));
    OK(cudaMemset(data, 0, 4096));
    OK(cudaMemcpyAsync(host, data, 4096, cudaMemcpyDeviceToHost, 0));
    memcpy(result.data(), host, result.size() * sizeof(int)); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFreeHost(host));
    return 0;
}
