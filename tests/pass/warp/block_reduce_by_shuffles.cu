// Sum of a block: shuffles within each warp, one slot per warp, shuffles over the slots.
// Result: out[b] = sum of the b-th 256 elements
//@launch: kernel=block_sums grid=4 block=256 arg=in:in:i32[1024]=randint(-99,99,seed=0) arg=out:out:i32[4]

extern "C" __global__ void block_sums(const int *in, int *out)
{
    __shared__ int of_warp[8];
    unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
    int value = in[blockIdx.x * 256 + t];
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    if (lane == 0)
        of_warp[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < 8 ? of_warp[lane] : 0;
        for (int offset = 4; offset > 0; offset /= 2)
            value += __shfl_down_sync(0xffffffff, value, offset);
        if (lane == 0)
            out[blockIdx.x] = value;
    }
}
