// A memset of rows in a stream writes memory that was freed.
#include "../runtime.h"

int main() {
    int *data;
    size_t pitch;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocPitch(&data, &pitch, 100, 10));
    OK(cudaFree(data));
    OK(cudaMemset2DAsync(data, pitch, 0, 100, 10, stream)); //~ use-after-free
    OK(cudaStreamDestroy(stream));
    return 0;
}
