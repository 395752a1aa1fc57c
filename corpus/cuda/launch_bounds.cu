// Performance directives: __launch_bounds__ with one and two arguments, __maxnreg__, __grid_constant__ parameters,
// large parameters by value, volatile and restrict, #pragma unroll and nounroll.
// Result: bounded, bounded_twice, few_registers  out[i] = in[i] * 2
//         by_value   out[i] = p.scale[i % 16] * in[i] + p.offset
//         constant   out[i] = p.scale[i % 16] * in[i] + p.offset, read through a pointer to the parameter
//@arch: 75+
//@launch: kernel=bounded grid=1 block=64 arg=in:f32[64]=randn(seed=0) arg=out:f32[64]
//@launch: kernel=bounded_twice grid=1 block=64 arg=in:f32[64]=randn(seed=1) arg=out:f32[64]
//@launch: kernel=few_registers grid=1 block=64 arg=in:f32[64]=randn(seed=2) arg=out:f32[64]

struct Params {
    float scale[16];
    float offset;
    char unused[3];
    double wide;
};

extern "C" __global__ void __launch_bounds__(64) bounded(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x] * 2.0f;
}

extern "C" __global__ void __launch_bounds__(128, 8) bounded_twice(const float *in, float *out)
{
#pragma unroll 4
    for (int i = 0; i < 8; i++)
        if (threadIdx.x % 8 == i)
            out[threadIdx.x] = in[threadIdx.x] * 2.0f;
}

extern "C" __global__ void __maxnreg__(32) few_registers(const float *in, float *out)
{
#pragma nounroll
    for (int i = 0; i < 8; i++)
        if (threadIdx.x % 8 == i)
            out[threadIdx.x] = in[threadIdx.x] * 2.0f;
}

extern "C" __global__ void by_value(Params p, const float *__restrict__ in, float *__restrict__ out)
{
    out[threadIdx.x] = p.scale[threadIdx.x % 16] * in[threadIdx.x] + p.offset;
}

__noinline__ __device__ float apply(const Params *p, unsigned i, float x)
{
    return p->scale[i % 16] * x + p->offset;
}

extern "C" __global__ void constant(const __grid_constant__ Params p, const volatile float *in, float *out)
{
    out[threadIdx.x] = apply(&p, threadIdx.x, in[threadIdx.x]);
}
