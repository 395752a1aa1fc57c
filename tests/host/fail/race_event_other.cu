// The wrong stream waits for an event.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t one, two, three;
    cudaEvent_t filled;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(cudaStreamCreate(&three));
    OK(cudaEventCreate(&filled));
    OK(cudaMalloc(&data, 64));
    OK(cudaMemsetAsync(data, 0, 64, one));
    OK(cudaEventRecord(filled, one));
    OK(cudaStreamWaitEvent(three, filled, 0));
    add<<<1, 16, 0, two>>>(data, 1); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaEventDestroy(filled));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    OK(cudaStreamDestroy(three));
    return 0;
}
