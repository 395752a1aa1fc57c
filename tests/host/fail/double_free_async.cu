// A stream frees memory, and the host frees it again.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocAsync(&data, 64, stream));
    OK(cudaFreeAsync(data, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaFree(data)); //~ double-free
    OK(cudaStreamDestroy(stream));
    return 0;
}
