// All lanes of a warp store the warp's maximum to one place, as the reductions that Triton generates do. One store of several lanes
// to one address is defined: one of them is done, and all store the same value.
// Result: out[warp] = maximum of the warp's 32 values
//@launch: kernel=maxima grid=2 block=64 arg=in:in:i32[128]=randint(-99,99,seed=0) arg=out:out:i32[4]

extern "C" __global__ void maxima(const int *in, int *out)
{
    __shared__ int of_warp[2];
    unsigned t = threadIdx.x;
    int value = in[blockIdx.x * 64 + t];
    for (int mask = 16; mask > 0; mask /= 2)
        value = max(value, __shfl_xor_sync(0xffffffff, value, mask));
    of_warp[t / 32] = value;
    __syncthreads();
    out[blockIdx.x * 2 + t / 32] = of_warp[t / 32];
}
