// A copy to the device is declared as one to the host.
#include "../runtime.h"

int main() {
    int host[16] = {}, *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemcpy(data, host, 64, cudaMemcpyHostToDevice));
    OK(cudaFree(data));
    return 0;
}
