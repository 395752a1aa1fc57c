// Sum and maximum of an array: shared-memory tree, then warp shuffles, then one atomic per block.
// Result: reduce_sum    out[0] = sum of in[0..n]      (out starts at 0)
//         reduce_max    out[0] = maximum of in[0..n]  (out starts at the bit pattern of the lowest float, mapped)
//@arch: 75+
//@launch: kernel=reduce_sum grid=8 block=256 arg=in:f32[4096]=randn(seed=0) arg=out:f32[1]=0 arg=n:u32=4096
//@launch: kernel=reduce_max grid=8 block=256 arg=in:f32[4096]=randn(seed=1) arg=out:u32[1]=0 arg=n:u32=4096

__device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

extern "C" __global__ void reduce_sum(const float *in, float *out, unsigned n)
{
    __shared__ float partial[256];
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    partial[threadIdx.x] = sum;
    __syncthreads();

    // Halve in shared memory down to one warp.
    for (unsigned half = blockDim.x / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        sum = warp_sum(partial[threadIdx.x]);
        if (threadIdx.x == 0)
            atomicAdd(out, sum);
    }
}

// Floats as unsigned integers of the same order, so that an integer atomic finds the maximum.
__device__ unsigned ordered(float value)
{
    unsigned bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

extern "C" __global__ void reduce_max(const float *in, unsigned *out, unsigned n)
{
    __shared__ unsigned of_warp[8];
    unsigned best = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        best = max(best, ordered(in[i]));
    for (int mask = 16; mask > 0; mask /= 2)
        best = max(best, __shfl_xor_sync(0xffffffff, best, mask));
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x < 8) {
        best = of_warp[threadIdx.x];
        for (int mask = 4; mask > 0; mask /= 2)
            best = max(best, __shfl_xor_sync(0xff, best, mask));
        if (threadIdx.x == 0)
            atomicMax(out, best);
    }
}
