// A copy in a stream reads memory that was freed after the copy before it.
#include "../runtime.h"

int main() {
    int *from, *to;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&from, 64));
    OK(cudaMalloc(&to, 64));
    OK(cudaMemsetAsync(from, 0, 64, stream));
    OK(cudaMemcpyAsync(to, from, 64, cudaMemcpyDeviceToDevice, stream));
    OK(cudaFree(from));
    OK(cudaMemcpyAsync(to, from, 32, cudaMemcpyDeviceToDevice, stream)); //~ use-after-free
    OK(cudaFree(to));
    OK(cudaStreamDestroy(stream));
    return 0;
}
