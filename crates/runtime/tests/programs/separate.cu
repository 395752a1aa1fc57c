// Two translation units of `-rdc=true`: this one calls a device function of the other and uses its variable.
#include "check.h"

extern __device__ int offset;
__device__ int twice(int value);
__managed__ int result[32];

__global__ void both() { result[threadIdx.x] = twice(threadIdx.x) + offset; }

int main() {
    both<<<1, 32>>>();
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 32; i++) IS(result[i] == 2 * i + 7);
    puts("ok");
}
