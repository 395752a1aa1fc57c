// The host changes the source of a copy that may not be complete.
#include "../runtime.h"

int main() {
    int *data, *host;
    OK(cudaMalloc(&data, 4096 * 4));
    OK(cudaMallocHost(&host, 4096 * 4));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 4096; i++)
            host[i] = step;
        OK(cudaMemcpyAsync(data, host, 4096 * 4, cudaMemcpyHostToDevice, 0));
        add<<<16, 256>>>(data, 1);
        OK(cudaStreamSynchronize(0));
    }
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFreeHost(host));
    return 0;
}
