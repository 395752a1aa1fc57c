// A copy reads memory that was freed.
#include "../runtime.h"

int main() {
    int *data, host[16];
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaMemcpy(host, data, 64, cudaMemcpyDeviceToHost));
    OK(cudaFree(data));
    return 0;
}
