// Reverses the first n values through shared memory; all threads come to the __syncthreads().
// Corpus: s01
//@launch: kernel=reverse grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64] arg=n:u32=40

extern "C" __global__ void reverse(const float *in, float *out, unsigned n)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    float value = in[t];
    tile[t] = value;
    __syncthreads();
    if (t < n) {
        value = tile[n - 1 - t];
    }
    out[t] = value;
}
