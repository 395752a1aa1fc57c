// Memory that a stream allocated is never freed.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocAsync(&data, 64, stream));
    OK(cudaMemsetAsync(data, 0, 64, stream));
    add<<<1, 16, 0, stream>>>(data, 1);
    OK(cudaFreeAsync(data, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
    return 0;
}
