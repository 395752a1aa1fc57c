// A stream records an event, and the other stream does not wait for it.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t one, two;
    cudaEvent_t filled;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(cudaEventCreate(&filled));
    OK(cudaMalloc(&data, 64));
    OK(cudaMemsetAsync(data, 0, 64, one));
    OK(cudaEventRecord(filled, one));
    OK(cudaStreamWaitEvent(two, filled, 0));
    add<<<1, 16, 0, two>>>(data, 1);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaEventDestroy(filled));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return 0;
}
