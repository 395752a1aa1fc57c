// The memory has room for a number of bytes, and the copy has this number of elements.
#include "../runtime.h"

int main() {
    const int count = 100;
    std::vector<float> host(count);
    float *data;
    OK(cudaMalloc(&data, count));
    OK(cudaMemcpy(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice)); //~ copy-bounds
    OK(cudaFree(data));
    return 0;
}
