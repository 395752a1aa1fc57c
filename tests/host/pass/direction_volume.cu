// A copy of slices has the wrong direction.
#include "../runtime.h"

int main() {
    std::vector<char> host(64 * 4 * 2);
    cudaPitchedPtr data;
    OK(cudaMalloc3D(&data, make_cudaExtent(64, 4, 2)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(host.data(), 64, 64, 4);
    copy.dstPtr = data;
    copy.extent = make_cudaExtent(64, 4, 2);
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&copy));
    OK(cudaFree(data.ptr));
    return 0;
}
