// What kernels do with pointers and clocks without letting them decide a result.
//@launch: kernel=wide_where_aligned grid=1 block=32 arg=in:in:f32[128]=iota arg=out:out:f32[128]
//@launch: kernel=until_the_end grid=1 block=32 arg=in:in:f32[128]=iota arg=out:out:f32[128]
//@launch: kernel=waits grid=1 block=32 arg=in:in:f32[128]=iota arg=out:out:f32[128]
//@checks: machine
extern "C" __global__ void wide_where_aligned(const float *in, float *out)
{
    bool aligned = (((unsigned long long)in | (unsigned long long)out) & 15) == 0;
    if (aligned) {
        ((float4 *)out)[threadIdx.x] = ((const float4 *)in)[threadIdx.x];
    } else {
        for (int i = 0; i < 4; ++i)
            out[4 * threadIdx.x + i] = in[4 * threadIdx.x + i];
    }
}

extern "C" __global__ void until_the_end(const float *in, float *out)
{
    const float *end = in + 128;
    for (const float *p = in + threadIdx.x; p < end; p += 32)
        out[p - in] = *p;
}

extern "C" __global__ void waits(const float *in, float *out)
{
    long long start = clock64();
    while (clock64() - start < 100) {
    }
    for (unsigned i = threadIdx.x; i < 128; i += 32)
        out[i] = in[i];
}
