// FP8 tensor cores (sm_89 and later): mma.sync m16n8k32 with e4m3 and e5m2 operands in every mixture,
// and a small row-by-column product whose operands are quantized to e4m3 in the kernel.
// Result: mma_*       d[m][n] = sum over k of a[m][k] * b[n][k]
//         quantized   d[m][n] = sum over k of e4m3(a[m][k] / scale_a) * e4m3(b[n][k] / scale_b) * scale_a * scale_b
//@arch: 89 90 100 120
//@launch: kernel=mma_e4m3_e4m3 grid=1 block=32 arg=a:e4m3[512]=randn(seed=0) arg=b:e4m3[256]=randn(seed=1) arg=d:f32[128]
//@launch: kernel=mma_e5m2_e5m2 grid=1 block=32 arg=a:e5m2[512]=randn(seed=2) arg=b:e5m2[256]=randn(seed=3) arg=d:f32[128]
//@launch: kernel=mma_e4m3_e5m2 grid=1 block=32 arg=a:e4m3[512]=randn(seed=4) arg=b:e5m2[256]=randn(seed=5) arg=d:f32[128]
//@launch: kernel=quantized_gemm grid=1 block=32 arg=a:f32[1024]=randn(seed=6) arg=b:f32[512]=randn(seed=7) arg=d:f32[128] arg=k:u32=64 arg=scale_a:f32=0.0625 arg=scale_b:f32=0.125
#include <cuda_fp8.h>

struct Fragments {
    unsigned a[4], b[2];
};

__device__ Fragments load(const unsigned *a, const unsigned *b)
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    return {{a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + 4 + t], a[(g + 8) * 8 + 4 + t]},
            {b[g * 8 + t], b[g * 8 + 4 + t]}};
}

#define MMA(c, f, ta, tb)                                                                                       \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." ta "." tb ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9}," \
                 "{%0,%1,%2,%3};"                                                                               \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                               \
                 : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]))

__device__ void store(float *d, const float (&c)[4], float scale = 1.0f)
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    d[g * 8 + 2 * t] = c[0] * scale;
    d[g * 8 + 2 * t + 1] = c[1] * scale;
    d[(g + 8) * 8 + 2 * t] = c[2] * scale;
    d[(g + 8) * 8 + 2 * t + 1] = c[3] * scale;
}

extern "C" __global__ void mma_e4m3_e4m3(const unsigned *a, const unsigned *b, float *d)
{
    Fragments f = load(a, b);
    float c[4] = {};
    MMA(c, f, "e4m3", "e4m3");
    store(d, c);
}

extern "C" __global__ void mma_e5m2_e5m2(const unsigned *a, const unsigned *b, float *d)
{
    Fragments f = load(a, b);
    float c[4] = {};
    MMA(c, f, "e5m2", "e5m2");
    store(d, c);
}

extern "C" __global__ void mma_e4m3_e5m2(const unsigned *a, const unsigned *b, float *d)
{
    Fragments f = load(a, b);
    float c[4] = {};
    MMA(c, f, "e4m3", "e5m2");
    store(d, c);
}

// Four consecutive floats of a row, divided by the scale and packed as e4m3, lowest byte first.
__device__ unsigned quantize(const float *values, float inverse_scale)
{
    float4 v = *(const float4 *)values;
    __nv_fp8x2_storage_t low = __nv_cvt_float2_to_fp8x2(make_float2(v.x * inverse_scale, v.y * inverse_scale),
                                                        __NV_SATFINITE, __NV_E4M3);
    __nv_fp8x2_storage_t high = __nv_cvt_float2_to_fp8x2(make_float2(v.z * inverse_scale, v.w * inverse_scale),
                                                         __NV_SATFINITE, __NV_E4M3);
    return (unsigned)low | (unsigned)high << 16;
}

// a[16][k], b[8][k]; k is a multiple of 32.
extern "C" __global__ void quantized_gemm(const float *a, const float *b, float *d, unsigned k, float scale_a,
                                          float scale_b)
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    float inverse_a = 1.0f / scale_a, inverse_b = 1.0f / scale_b;
    float c[4] = {};
    for (unsigned k0 = 0; k0 < k; k0 += 32) {
        const float *low = a + g * k + k0 + 4 * t, *high = low + 8 * k, *column = b + g * k + k0 + 4 * t;
        Fragments f = {{quantize(low, inverse_a), quantize(high, inverse_a), quantize(low + 16, inverse_a),
                        quantize(high + 16, inverse_a)},
                       {quantize(column, inverse_b), quantize(column + 16, inverse_b)}};
        MMA(c, f, "e4m3", "e4m3");
    }
    store(d, c, scale_a * scale_b);
}
