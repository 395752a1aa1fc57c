// A copy without a direction writes memory that was freed.
#include "../runtime.h"

int main() {
    int *data, host[16] = {};
    OK(cudaMalloc(&data, 64));
    OK(cudaFree(data));
    OK(cudaMemcpy(data, host, 64, cudaMemcpyDefault)); //~ use-after-free
    return 0;
}
