// A host function of one stream reads what a copy of another stream writes.
#include "../runtime.h"

static int found;
static void CUDART_CB look(void *data) {
    found = *(int *)data; //~ stream-race
}

int main() {
    int *data, *host;
    cudaStream_t one, two;
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaMalloc(&data, 64));
    OK(cudaMallocHost(&host, 64));
    OK(cudaMemsetAsync(data, 0, 64, one));
    OK(cudaMemcpyAsync(host, data, 64, cudaMemcpyDeviceToHost, one));
    OK(cudaLaunchHostFunc(two, look, host));
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFreeHost(host));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return found;
}
