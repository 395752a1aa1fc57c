// The host reads what a kernel writes, without waiting for the flag that the kernel sets.
//@not-late: work that waits for a call never sets the flag
#include "../runtime.h"

static __global__ void produce(int *data, volatile int *ready) {
    data[threadIdx.x] = 7;
    __threadfence_system();
    __syncthreads();
    if (false)
        *ready = 1;
}

int main() {
    int *data, *ready;
    OK(cudaMallocManaged(&data, 64));
    OK(cudaMallocManaged(&ready, sizeof(int)));
    *ready = 0;
    produce<<<1, 16>>>(data, ready);
    int first = data[0]; //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFree(ready));
    return first == 7 ? 0 : 3;
}
