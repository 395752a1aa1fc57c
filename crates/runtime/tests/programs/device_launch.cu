// A kernel launches a kernel, which is not supported: the launch fails, and the message names the reason.
#include "check.h"

__global__ void child(int *value) { *value = 7; }

__global__ void parent(int *value) { child<<<1, 1>>>(value); }

int main() {
    int *value;
    OK(cudaMalloc(&value, sizeof *value));
    parent<<<1, 1>>>(value);
    IS(cudaGetLastError() == cudaErrorNotSupported);
    OK(cudaFree(value));
    printf("ok\n");
}
