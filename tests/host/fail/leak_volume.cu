// Slices of memory are never freed.
#include "../runtime.h"

int main() {
    cudaPitchedPtr data;
    cudaExtent extent = make_cudaExtent(100, 10, 4);
    OK(cudaMalloc3D(&data, extent)); //~ memory-leak
    OK(cudaMemset3D(data, 0, extent));
    return 0;
}
