// Reverses 128 values of which n are given. The shared elements from n on are never written, but all are read.
// Hardware gives what an earlier block left there, often zeros, so it looks right.
// Corpus: m04
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[100]=randn(seed=0) arg=out:out:f32[128] arg=n:u32=100

extern "C" __global__ void reverse(const float *in, float *out, unsigned n)
{
    __shared__ float tile[128];
    unsigned t = threadIdx.x;
    if (t < n)
        tile[t] = in[t];
    __syncthreads();
    out[t] = tile[127 - t]; //~ uninitialized
}
