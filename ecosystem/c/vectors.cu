// The kernels of vectors.c. `vectors.ptx` is what NVRTC 12.9 makes of them for compute_75.

extern "C" __global__ void add(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}

extern "C" __global__ void sum(const float *x, int *total, int n)
{
    extern __shared__ int partial[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    partial[threadIdx.x] = i < n ? (int)x[i] : 0;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(total, partial[0]);
}

extern "C" __global__ void stray(int *nowhere)
{
    *nowhere = 1;
}

// With a mistake: the barrier between the store and the neighbor's load is missing.
extern "C" __global__ void shift(const int *x, int *out)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
}
