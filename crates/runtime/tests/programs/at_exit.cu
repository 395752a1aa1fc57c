// A destructor of a global variable launches a kernel and frees memory after `main`.
#include "check.h"

__global__ void set(int *p) { *p = 3; }

struct Global {
    int *p = nullptr;
    ~Global() {
        int value = 0;
        set<<<1, 1>>>(p);
        OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
        OK(cudaFree(p));
        puts(value == 3 ? "ok" : "wrong");
    }
} global;

int main() {
    OK(cudaMalloc(&global.p, 4));
    set<<<1, 1>>>(global.p);
    OK(cudaDeviceSynchronize());
}
