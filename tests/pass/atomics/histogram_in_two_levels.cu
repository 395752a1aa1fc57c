// Histogram of 4096 bytes: each block counts in shared memory by relaxed atomics, then adds its bins to global
// memory.
// Result: bins[v] = how many elements of in are v
//@launch: kernel=histogram grid=4 block=256 arg=in:in:u8[4096]=randint(0,63,seed=0) arg=bins:inout:u32[64]=zeros arg=n:u32=4096

extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, unsigned n)
{
    __shared__ unsigned mine[64];
    unsigned t = threadIdx.x;
    if (t < 64)
        mine[t] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[in[i]], 1);
    __syncthreads();
    if (t < 64)
        atomicAdd(&bins[t], mine[t]);
}
