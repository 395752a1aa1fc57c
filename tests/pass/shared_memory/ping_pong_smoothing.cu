// Eight smoothing steps over a ring of 128 elements. Two buffers change places after each step.
// Result: out = in after eight steps of x[i] = (x[i - 1] + 2 * x[i] + x[i + 1]) / 4, indices modulo 128
//@launch: kernel=smooth grid=1 block=128 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[128] arg=steps:i32=8

extern "C" __global__ void smooth(const float *in, float *out, int steps)
{
    __shared__ float first[128];
    __shared__ float second[128];
    float *from = first, *to = second;
    unsigned t = threadIdx.x, left = (t + 127) % 128, right = (t + 1) % 128;
    from[t] = in[t];
    for (int step = 0; step < steps; step++) {
        __syncthreads();
        to[t] = 0.25f * (from[left] + 2.0f * from[t] + from[right]);
        float *swap = from;
        from = to;
        to = swap;
    }
    out[t] = from[t];
}
