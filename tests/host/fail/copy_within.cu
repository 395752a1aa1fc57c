// A copy within device memory is longer than its source.
#include "../runtime.h"

int main() {
    int *from, *to;
    OK(cudaMalloc(&from, 64));
    OK(cudaMalloc(&to, 128));
    OK(cudaMemset(from, 0, 64));
    OK(cudaMemcpyAsync(to, from, 128, cudaMemcpyDeviceToDevice, 0)); //~ copy-bounds
    OK(cudaDeviceSynchronize());
    OK(cudaFree(from));
    OK(cudaFree(to));
    return 0;
}
