// Each thread reads an element of two arrays, of which half is written, and takes the one that is.
// Result: out[i] = in[i]
//@launch: kernel=pick grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void pick(const float *in, float *out)
{
    __shared__ float high[64], low[64];
    unsigned t = threadIdx.x;
    if (t < 32)
        low[t] = in[t];
    else
        high[t] = in[t];
    __syncthreads();
    float a = ((volatile float *)high)[t];
    float b = ((volatile float *)low)[t];
    out[t] = t < 32 ? b : a;
}
