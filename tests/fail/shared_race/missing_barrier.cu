// Reverses 256 elements through shared memory. No barrier stands between the writes and the reads: a warp reads
// slots whose owners have not run yet, and gets what the memory held before.
// Corpus: r01
//@launch: kernel=reverse grid=1 block=256 arg=in:in:f32[256]=randn(seed=0) arg=out:out:f32[256]

extern "C" __global__ void reverse(const float *in, float *out)
{
    __shared__ float tile[256];
    unsigned t = threadIdx.x;
    tile[t] = in[t]; //~ shared-race
    out[t] = tile[255 - t]; //~ shared-race
}
