// A pipeline fills a buffer again while the kernel of the step before may still read it.
#include "../runtime.h"

static __global__ void sum(const int *data, int *out) { atomicAdd(out, data[threadIdx.x]); }

int main() {
    int *data, *out, *host;
    cudaStream_t compute, transfer;
    cudaEvent_t filled, used;
    OK(cudaStreamCreate(&compute));
    OK(cudaStreamCreate(&transfer));
    OK(cudaEventCreate(&filled));
    OK(cudaEventCreate(&used));
    OK(cudaMalloc(&data, 64));
    OK(cudaMalloc(&out, sizeof(int)));
    OK(cudaMallocHost(&host, 64));
    memset(host, 0, 64);
    OK(cudaMemset(out, 0, sizeof(int)));
    OK(cudaDeviceSynchronize());
    for (int step = 0; step < 3; step++) {
        OK(cudaMemcpyAsync(data, host, 64, cudaMemcpyHostToDevice, transfer)); //~ stream-race
        OK(cudaEventRecord(filled, transfer));
        OK(cudaStreamWaitEvent(compute, filled, 0));
        sum<<<1, 16, 0, compute>>>(data, out);
    }
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFree(out));
    OK(cudaFreeHost(host));
    OK(cudaEventDestroy(filled));
    OK(cudaEventDestroy(used));
    OK(cudaStreamDestroy(compute));
    OK(cudaStreamDestroy(transfer));
    return 0;
}
