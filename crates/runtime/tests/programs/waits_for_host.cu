// A kernel that waits for the host, which this device cannot run.
#include "check.h"

__global__ void wait(volatile int *flag, int *out) {
    while (*flag == 0) {
    }
    *out = 1;
}

int main() {
    int *flag, *out;
    OK(cudaMallocHost(&flag, sizeof(int)));
    OK(cudaMalloc(&out, sizeof(int)));
    *flag = 0;
    wait<<<1, 1>>>(flag, out);
    *(volatile int *)flag = 1;
    IS(cudaDeviceSynchronize() == cudaErrorNotSupported);
    puts("ok");
}
