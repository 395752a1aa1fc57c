// Swaps neighboring elements through shared memory within one warp. `volatile` keeps the accesses, but the
// lanes of a warp are scheduled independently since Volta: a lane may read before its neighbor has written.
// Corpus: r06
//@launch: kernel=swap_neighbors grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void swap_neighbors(const float *in, float *out)
{
    __shared__ volatile float tile[32];
    unsigned lane = threadIdx.x;
    tile[lane] = in[lane]; //~ shared-race
    out[lane] = tile[lane ^ 1]; //~ shared-race
}
