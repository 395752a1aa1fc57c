// Each block stores a partial sum; all threads of the block that counts last add them up.
// Result: out[0] = sum of in; count[0] = 0 again
//@launch: kernel=sum grid=16 block=64 arg=in:in:i32[1024]=randint(-99,99,seed=0) arg=partial:out:i32[16] arg=count:inout:u32[1]=zeros arg=out:out:i32[1]

__device__ int warp_sum(int value)
{
    for (int mask = 16; mask > 0; mask /= 2)
        value += __shfl_xor_sync(0xffffffff, value, mask);
    return value;
}

extern "C" __global__ void sum(const int *in, int *partial, unsigned *count, int *out)
{
    __shared__ int of_warp[2];
    __shared__ bool last;
    unsigned t = threadIdx.x;
    int value = warp_sum(in[blockIdx.x * 64 + t]);
    if (t % 32 == 0)
        of_warp[t / 32] = value;
    __syncthreads();
    if (t == 0) {
        partial[blockIdx.x] = of_warp[0] + of_warp[1];
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && t < 32) {
        value = warp_sum(t < gridDim.x ? partial[t] : 0);
        if (t == 0)
            out[0] = value;
    }
}
