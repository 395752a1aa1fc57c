// A copy in a stream has the wrong direction.
#include "../runtime.h"

int main() {
    int host[16] = {}, *data;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&data, 64));
    OK(cudaMemcpyAsync(data, host, 64, cudaMemcpyDeviceToHost, stream)); //~ invalid-copy-direction
    OK(cudaStreamSynchronize(stream));
    OK(cudaFree(data));
    OK(cudaStreamDestroy(stream));
    return 0;
}
