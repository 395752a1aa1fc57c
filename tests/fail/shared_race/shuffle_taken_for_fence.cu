// Reverses one warp's elements through shared memory, with the source lane fetched by a shuffle. The shuffle
// makes the lanes meet, but it orders no memory: the stores before it need not be visible to the loads after
// it.
// Corpus: r13
//@launch: kernel=reverse_warp grid=1 block=32 arg=in:in:i32[32]=iota(100) arg=out:out:i32[32]

extern "C" __global__ void reverse_warp(const int *in, int *out)
{
    __shared__ volatile int tile[32];
    unsigned lane = threadIdx.x;
    tile[lane] = in[lane]; //~ shared-race
    unsigned source = __shfl_sync(0xffffffff, lane, 31 - lane);
    out[lane] = tile[source]; //~ shared-race
}
