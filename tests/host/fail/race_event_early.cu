// An event is recorded before the work that the other stream needs.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t one, two;
    cudaEvent_t filled;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(cudaEventCreate(&filled));
    OK(cudaMalloc(&data, 64));
    OK(cudaEventRecord(filled, one));
    OK(cudaMemsetAsync(data, 0, 64, one));
    OK(cudaStreamWaitEvent(two, filled, 0));
    add<<<1, 16, 0, two>>>(data, 1); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaEventDestroy(filled));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return 0;
}
