// A copy of rows has more rows than its destination.
#include "../runtime.h"

int main() {
    std::vector<char> host(100 * 16);
    char *data;
    size_t pitch;
    OK(cudaMallocPitch(&data, &pitch, 100, 8));
    OK(cudaMemcpy2D(data, pitch, host.data(), 100, 100, 8, cudaMemcpyHostToDevice));
    OK(cudaFree(data));
    return 0;
}
