// Two devices: variables, memory, peers, and a device per thread.
#include "check.h"
#include <thread>

__device__ int number;
__global__ void set(int value) { number = value; }
__global__ void add(int *p) { *p += number; }

int main() {
    int count;
    OK(cudaGetDeviceCount(&count));
    IS(count == 2);
    int *p[2], value;
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d));
        OK(cudaMalloc(&p[d], 4));
        OK(cudaMemset(p[d], 0, 4));
        // Each device has its own variable.
        set<<<1, 1>>>(10 + d);
        OK(cudaDeviceSynchronize());
    }
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d));
        add<<<1, 1>>>(p[d]);
        OK(cudaMemcpy(&value, p[d], 4, cudaMemcpyDeviceToHost));
        IS(value == 10 + d);
        OK(cudaMemcpyFromSymbol(&value, number, 4));
        IS(value == 10 + d);
        cudaPointerAttributes attributes;
        OK(cudaPointerGetAttributes(&attributes, p[d]));
        IS(attributes.device == d && attributes.type == cudaMemoryTypeDevice);
    }
    int can = 0;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    IS(can == 1);
    OK(cudaSetDevice(0));
    OK(cudaDeviceEnablePeerAccess(1, 0));
    IS(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
    (void)cudaGetLastError();
    add<<<1, 1>>>(p[1]);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpyPeer(p[0], 0, p[1], 1, 4));
    OK(cudaMemcpy(&value, p[0], 4, cudaMemcpyDeviceToHost));
    IS(value == 21);
    OK(cudaDeviceDisablePeerAccess(1));
    // A new thread starts with the first device.
    OK(cudaSetDevice(1));
    std::thread([] {
        int device;
        OK(cudaGetDevice(&device));
        IS(device == 0);
    }).join();
    int device;
    OK(cudaGetDevice(&device));
    IS(device == 1);
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d));
        OK(cudaFree(p[d]));
    }
    puts("ok");
}
