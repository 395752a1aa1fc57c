// Managed variables: the host and kernels use the same memory.
#include "check.h"

__managed__ int value = 5;
__managed__ float table[256];

__global__ void use() {
    table[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 0) value += 10;
}

int main() {
    IS(value == 5);
    value = 7;
    use<<<1, 256>>>();
    OK(cudaDeviceSynchronize());
    IS(value == 17 && table[255] == 255);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, &value));
    IS(attributes.type == cudaMemoryTypeManaged);
    puts("ok");
}
