// All threads come to the __syncthreads(); those from n on store a zero and write no output.
// Corpus: s02
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[100]=randn(seed=0) arg=out:out:f32[100] arg=n:u32=100

extern "C" __global__ void reverse(const float *in, float *out, unsigned n)
{
    __shared__ float tile[128];
    unsigned t = threadIdx.x;
    tile[t] = t < n ? in[t] : 0.0f;
    __syncthreads();
    if (t < n)
        out[t] = tile[n - 1 - t];
}
