// The default streams of two threads do not wait for each other.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaDeviceSynchronize());
    add<<<1, 16, 0, cudaStreamPerThread>>>(data, 1);
    std::thread([data] {
        add<<<1, 16, 0, cudaStreamPerThread>>>(data, 1); //~ stream-race
        OK(cudaStreamSynchronize(cudaStreamPerThread));
    }).join();
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    return 0;
}
