// The host writes managed memory that a kernel may still read; it may read it too.
#include "../runtime.h"

static __global__ void sum(const int *data, int *out) { atomicAdd(out, data[threadIdx.x]); }

int main() {
    int *data, *out;
    OK(cudaMallocManaged(&data, 64));
    OK(cudaMalloc(&out, sizeof(int)));
    OK(cudaMemset(out, 0, sizeof(int)));
    memset(data, 0, 64);
    sum<<<1, 16>>>(data, out);
    int first = data[0];
    OK(cudaDeviceSynchronize());
    data[0] = first + 1;
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    OK(cudaFree(out));
    return 0;
}
