// A copy within the host gets a device pointer.
#include "../runtime.h"

int main() {
    int host[16], *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaMemcpy(host, data, 64, cudaMemcpyDeviceToHost));
    OK(cudaFree(data));
    return 0;
}
