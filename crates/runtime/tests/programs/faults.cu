// A race, and an access out of bounds, which ends the context.
#include "check.h"

__global__ void race(int *out) {
    __shared__ int buffer[64];
    buffer[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = buffer[63 - threadIdx.x];
}
__global__ void beyond(int *p) { p[1 << 20] = 1; }

int main() {
    int *p;
    OK(cudaMalloc(&p, 256));
    race<<<1, 64>>>(p);
    OK(cudaDeviceSynchronize());
    beyond<<<1, 1>>>(p);
    IS(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    // The error stays until the device is reset.
    IS(cudaGetLastError() == cudaErrorIllegalAddress);
    IS(cudaGetLastError() == cudaErrorIllegalAddress);
    IS(cudaMalloc(&p, 4) == cudaErrorIllegalAddress);
    OK(cudaDeviceReset());
    (void)cudaGetLastError();
    OK(cudaMalloc(&p, 4));
    OK(cudaGetLastError());
    OK(cudaFree(p));
    puts("ok");
}
