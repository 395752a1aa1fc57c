// Reverses one warp's elements through shared memory, with the source lane fetched by a shuffle; __syncwarp
// orders the stores before the loads, which the shuffle does not.
// Result: out[i] = in[31 - i]
// Corpus: r13
//@launch: kernel=reverse_warp grid=1 block=32 arg=in:in:i32[32]=iota(100) arg=out:out:i32[32]

extern "C" __global__ void reverse_warp(const int *in, int *out)
{
    __shared__ volatile int tile[32];
    unsigned lane = threadIdx.x;
    tile[lane] = in[lane];
    unsigned source = __shfl_sync(0xffffffff, lane, 31 - lane);
    __syncwarp();
    out[lane] = tile[source];
}
