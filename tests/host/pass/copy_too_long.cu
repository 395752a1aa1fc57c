// A copy is longer than its destination.
#include "../runtime.h"

int main() {
    std::vector<int> host(32);
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemcpy(data, host.data(), 64, cudaMemcpyHostToDevice));
    OK(cudaFree(data));
    return 0;
}
