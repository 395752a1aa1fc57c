// Slices of memory are never freed.
#include "../runtime.h"

int main() {
    cudaPitchedPtr data;
    cudaExtent extent = make_cudaExtent(100, 10, 4);
    OK(cudaMalloc3D(&data, extent));
    OK(cudaMemset3D(data, 0, extent));
    OK(cudaFree(data.ptr));
    return 0;
}
