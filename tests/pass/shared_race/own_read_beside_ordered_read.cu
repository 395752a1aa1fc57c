// Two threads of a warp read a number, and one of them replaces it when the warp has met.
// Result: out[33] = out[40] = in[0], else out[i] = in[i]
//@launch: kernel=replace grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void replace(const float *in, float *out)
{
    __shared__ float best;
    unsigned t = threadIdx.x;
    float seen = in[t];
    if (t == 0)
        best = in[0];
    __syncthreads();
    if (t == 33)
        out[33] = (volatile float &)best;
    if (t == 40)
        out[40] = (volatile float &)best;
    __syncwarp();
    if (t == 33)
        best = seen;
    if (t != 33 && t != 40)
        out[t] = seen;
}
