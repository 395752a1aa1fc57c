// Reverses 256 elements through shared memory, with a barrier between the writes and the reads.
// Result: out[i] = in[255 - i]
// Corpus: r01
//@launch: kernel=reverse grid=1 block=256 arg=in:in:f32[256]=randn(seed=0) arg=out:out:f32[256]

extern "C" __global__ void reverse(const float *in, float *out)
{
    __shared__ float tile[256];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    out[t] = tile[255 - t];
}
