// Row sums by an e4m3 mma of values that are quantized with a scale, which is multiplied back into the sums.
// Corpus: t11
//@launch: kernel=row_sums grid=1 block=32 arg=a:in:f32[16x32]=randn(seed=0,std=1000) arg=d:out:f32[16x8] arg=scale:f32=16
#include <cuda_fp8.h>

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "    \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

__device__ unsigned quantize(const float *x, float scale)
{
    unsigned low = __nv_cvt_float2_to_fp8x2(make_float2(x[0] / scale, x[1] / scale), __NV_SATFINITE, __NV_E4M3);
    unsigned high = __nv_cvt_float2_to_fp8x2(make_float2(x[2] / scale, x[3] / scale), __NV_SATFINITE, __NV_E4M3);
    return low | high << 16;
}

extern "C" __global__ void row_sums(const float *a, float *d, float scale)
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned fa[4], ones[2] = {0x38383838, 0x38383838};
    for (unsigned i = 0; i < 4; i++)
        fa[i] = quantize(a + (g + i % 2 * 8) * 32 + i / 2 * 16 + t * 4, scale);
    float c[4] = {};
    MMA(c, fa, ones);
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i] * scale;
}
