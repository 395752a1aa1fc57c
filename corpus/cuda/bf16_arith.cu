// <cuda_bf16.h>: arithmetic, conversion and functions of bfloat16 (some of it emulated by the header below sm_90).
// Result: see each kernel
//@arch: 80+
//@launch: kernel=bf16_scalar grid=1 block=128 arg=x:bf16[128]=randn(seed=0) arg=y:bf16[128]=randn(seed=1) arg=out:bf16[768]
//@launch: kernel=bf16_pairs grid=1 block=128 arg=x:bf16[256]=randn(seed=2) arg=y:bf16[256]=randn(seed=3) arg=out:bf16[256]
//@launch: kernel=bf16_round grid=1 block=64 arg=x:f32[64]=randn(seed=4) arg=out:bf16[256]
//@launch: kernel=bf16_from_others grid=1 block=64 arg=d:f64[64]=randn(seed=5) arg=k:i32[64]=randint(seed=6) arg=out:bf16[128]
//@launch: kernel=bf16_sum grid=1 block=256 arg=x:bf16[256]=randn(seed=7) arg=out:f32[1]
#include <cuda_bf16.h>

extern "C" __global__ void bf16_scalar(const __nv_bfloat16 *x, const __nv_bfloat16 *y, __nv_bfloat16 *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    __nv_bfloat16 a = x[i], b = y[i];
    out[i] = a + b;
    out[n + i] = a - b;
    out[2 * n + i] = a * b;
    out[3 * n + i] = a / b;
    out[4 * n + i] = __hmax(a, b);
    out[5 * n + i] = a < b ? __habs(a) : __hneg(b);
}

extern "C" __global__ void bf16_pairs(const __nv_bfloat162 *x, const __nv_bfloat162 *y, __nv_bfloat162 *out)
{
    __nv_bfloat162 a = x[threadIdx.x], b = y[threadIdx.x];
    out[threadIdx.x] = __hfma2(a, b, __lowhigh2highlow(a));
}

extern "C" __global__ void bf16_round(const float *x, __nv_bfloat16 *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    out[i] = __float2bfloat16_rn(x[i]);
    out[n + i] = __float2bfloat16_rz(x[i]);
    out[2 * n + i] = __float2bfloat16_ru(x[i]);
    out[3 * n + i] = __float2bfloat16_rd(x[i]);
}

extern "C" __global__ void bf16_from_others(const double *d, const int *k, __nv_bfloat16 *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    out[i] = __double2bfloat16(d[i]);
    out[n + i] = __int2bfloat16_rn(k[i]);
}

extern "C" __global__ void bf16_sum(const __nv_bfloat16 *x, float *out)
{
    __shared__ float of_warp[8];
    float sum = __bfloat162float(x[threadIdx.x]);
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++)
            sum += of_warp[warp];
        out[0] = sum;
    }
}
