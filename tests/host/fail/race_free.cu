// One stream frees memory that a kernel of another stream uses.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t one, two;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(cudaMallocAsync(&data, 64, one));
    OK(cudaMemsetAsync(data, 0, 64, one));
    add<<<1, 16, 0, one>>>(data, 1);
    OK(cudaFreeAsync(data, two)); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return 0;
}
