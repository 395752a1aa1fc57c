// A copy is longer than the pinned memory that it writes.
#include "../runtime.h"

int main() {
    int *host, *data;
    OK(cudaMallocHost(&host, 64));
    OK(cudaMalloc(&data, 128));
    OK(cudaMemset(data, 0, 128));
    OK(cudaMemcpy(host, data, 64, cudaMemcpyDeviceToHost));
    OK(cudaFree(data));
    OK(cudaFreeHost(host));
    return 0;
}
