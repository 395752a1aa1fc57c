// The memory has room for a number of bytes, and the copy has this number of elements.
#include "../runtime.h"

int main() {
    const int count = 100;
    std::vector<float> host(count);
    float *data;
    OK(cudaMalloc(&data, count * sizeof(float)));
    OK(cudaMemcpy(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaFree(data));
    return 0;
}
