// Copies n floats with blocks of 256; the last block is guarded.
// Corpus: m01
//@launch: kernel=copy grid=4 block=256 arg=in:in:f32[1000]=randn(seed=0) arg=out:out:f32[1000] arg=n:u32=1000

extern "C" __global__ void copy(const float *in, float *out, unsigned n)
{
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}
