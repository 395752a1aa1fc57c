// A copy starts in the middle of a block and ends after it.
#include "../runtime.h"

int main() {
    int host[16];
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaMemcpy(host, data + 8, 32, cudaMemcpyDeviceToHost));
    OK(cudaFree(data));
    return 0;
}
