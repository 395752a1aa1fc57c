// A copy within the device gets a host pointer.
#include "../runtime.h"

int main() {
    std::vector<int> host(16);
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemcpy(data, host.data(), 64, cudaMemcpyDeviceToDevice)); //~ invalid-copy-direction
    OK(cudaFree(data));
    return 0;
}
