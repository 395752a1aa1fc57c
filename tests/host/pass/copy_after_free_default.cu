// A copy without a direction writes memory that was freed.
#include "../runtime.h"

int main() {
    int *data, host[16] = {};
    OK(cudaMalloc(&data, 64));
    OK(cudaMemcpy(data, host, 64, cudaMemcpyDefault));
    OK(cudaFree(data));
    return 0;
}
