// A copy of rows has the wrong direction.
#include "../runtime.h"

int main() {
    std::vector<char> host(100 * 8);
    char *data;
    size_t pitch;
    OK(cudaMallocPitch(&data, &pitch, 100, 8));
    OK(cudaMemcpy2D(data, pitch, host.data(), 100, 100, 8, cudaMemcpyDeviceToHost)); //~ invalid-copy-direction
    OK(cudaFree(data));
    return 0;
}
