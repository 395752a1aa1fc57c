// Each thread takes an element of one of two arrays, of which half is written. Even threads of the second warp take an element
// of `low` that is not there; `high`, which lies unwritten in the first warp, is not what they take.
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
    float b = ((volatile float *)low)[t]; //~ uninitialized
    out[t] = t < 32 || t % 2 == 0 ? b : a; //~ uninitialized
}
