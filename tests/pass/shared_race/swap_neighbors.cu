// Swaps neighboring elements through volatile shared memory within one warp; __syncwarp orders the lanes.
// Result: out[i] = in[i ^ 1]
// Corpus: r06
//@launch: kernel=swap_neighbors grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void swap_neighbors(const float *in, float *out)
{
    __shared__ volatile float tile[32];
    unsigned lane = threadIdx.x;
    tile[lane] = in[lane];
    __syncwarp();
    out[lane] = tile[lane ^ 1];
}
