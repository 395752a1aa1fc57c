// Reverses one warp's elements through shared memory; all 32 lanes synchronize, because every value crosses
// halves.
// Result: out[i] = in[31 - i]
// Corpus: r07
//@launch: kernel=reverse_warp grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void reverse_warp(const float *in, float *out)
{
    __shared__ volatile float tile[32];
    unsigned lane = threadIdx.x;
    tile[lane] = in[lane];
    __syncwarp();
    out[lane] = tile[31 - lane];
}
