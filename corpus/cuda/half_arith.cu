// <cuda_fp16.h>: arithmetic, comparison, conversion and functions of half and half2.
// Result: see each kernel
//@arch: 75+
//@launch: kernel=half2_axpy grid=2 block=128 arg=x:f16[512]=randn(seed=0) arg=y:f16[512]=randn(seed=1) arg=a:f32=1.5
//@launch: kernel=half_scalar grid=1 block=128 arg=x:f16[128]=randn(seed=2) arg=y:f16[128]=randn(seed=3) arg=out:f16[1024]
//@launch: kernel=half_compare grid=1 block=64 arg=x:f16[128]=randn(seed=4) arg=y:f16[128]=randn(seed=5) arg=out:u32[64]
//@launch: kernel=half_round grid=1 block=64 arg=x:f32[64]=randn(seed=6) arg=out:f16[256] arg=whole:i32[64]
//@launch: kernel=half_functions grid=1 block=64 arg=x:f16[64]=uniform(0.1,4,seed=7) arg=out:f16[384]
//@launch: kernel=half_dot grid=1 block=32 arg=x:f16[256]=randn(seed=8) arg=y:f16[256]=randn(seed=9) arg=out:f32[1]
#include <cuda_fp16.h>

// y = a * x + y, one rounding.
extern "C" __global__ void half2_axpy(const __half2 *x, __half2 *y, float a)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __hfma2(__float2half2_rn(a), x[i], y[i]);
}

extern "C" __global__ void half_scalar(const __half *x, const __half *y, __half *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    __half a = x[i], b = y[i];
    out[i] = a + b;
    out[n + i] = a - b;
    out[2 * n + i] = a * b;
    out[3 * n + i] = a / b;
    out[4 * n + i] = __hfma_sat(a, b, a);
    out[5 * n + i] = __hmin(__habs(a), __hneg(b));
    out[6 * n + i] = __hmax(a, b);
    out[7 * n + i] = __hadd_sat(a, b);
}

// Bits 0…5: the lower elements compare ==, !=, <, <=, >, >=; bit 6: both pairs equal; bit 7: the upper a is NaN.
extern "C" __global__ void half_compare(const __half2 *x, const __half2 *y, unsigned *out)
{
    __half2 p = x[threadIdx.x], q = y[threadIdx.x];
    __half a = __low2half(p), b = __low2half(q);
    out[threadIdx.x] = (a == b) | (a != b) << 1 | (a < b) << 2 | (a <= b) << 3 | (a > b) << 4 | (a >= b) << 5 |
                       __hbeq2(p, q) << 6 | __hisnan(__high2half(p)) << 7;
}

// Every rounding of float to half; whole = half to int, towards minus infinity.
extern "C" __global__ void half_round(const float *x, __half *out, int *whole)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    out[i] = __float2half_rn(x[i]);
    out[n + i] = __float2half_rz(x[i]);
    out[2 * n + i] = __float2half_ru(x[i]);
    out[3 * n + i] = __float2half_rd(x[i]);
    whole[i] = __half2int_rd(out[i]);
}

extern "C" __global__ void half_functions(const __half *x, __half *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    out[i] = hexp(x[i]);
    out[n + i] = hlog2(x[i]);
    out[2 * n + i] = hsqrt(x[i]);
    out[3 * n + i] = hrsqrt(x[i]);
    out[4 * n + i] = hsin(x[i]);
    out[5 * n + i] = htrunc(x[i]);
}

// Dot product in half2, lanes joined by shuffles of half2, the sum of both halves as float.
extern "C" __global__ void half_dot(const __half2 *x, const __half2 *y, float *out)
{
    __half2 sum = __float2half2_rn(0.0f);
    for (unsigned i = threadIdx.x; i < 128; i += 32)
        sum = __hfma2(x[i], y[i], sum);
    for (int mask = 16; mask > 0; mask /= 2)
        sum = __hadd2(sum, __shfl_xor_sync(0xffffffff, sum, mask));
    if (threadIdx.x == 0)
        out[0] = __low2float(sum) + __high2float(sum);
}
