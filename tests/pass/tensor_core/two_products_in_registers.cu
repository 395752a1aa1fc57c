// Two layers: the accumulators of the first product, with bias and activation, are the A operand of the second.
//@launch: kernel=mlp grid=1 block=32 arg=x:in:f16[16x16]=randn(seed=0) arg=w1:in:f16[64x16]=randn(seed=1) arg=bias:in:f32[64]=randn(seed=3) arg=w2:in:f16[8x64]=randn(seed=2) arg=d:out:f32[16x8]
#include <cuda_fp16.h>
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

static __device__ unsigned pack(float low, float high)
{
    __half2 pair = __floats2half2_rn(low, high);
    return *(unsigned *)&pair;
}

extern "C" __global__ void mlp(const half *x, const half *w1, const float *bias, const half *w2, float *d)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned fx[4];
    for (unsigned i = 0; i < 4; i++)
        fx[i] = *(const unsigned *)&x[(g + i % 2 * 8) * 16 + i / 2 * 8 + 2 * t];
    float out[4] = {};
    for (unsigned h = 0; h < 64; h += 16) {
        unsigned fh[4];
        for (unsigned n = 0; n < 2; n++) {
            float c[4] = {};
            unsigned fw[2];
            for (unsigned i = 0; i < 2; i++)
                fw[i] = *(const unsigned *)&w1[(h + 8 * n + g) * 16 + i * 8 + 2 * t];
            MMA(c, fx, fw);
            for (unsigned i = 0; i < 4; i++) {
                float y = c[i] + bias[h + 8 * n + 2 * t + i % 2];
                c[i] = y > 0 ? y : 0.1f * y;
            }
            fh[2 * n] = pack(c[0], c[1]);
            fh[2 * n + 1] = pack(c[2], c[3]);
        }
        unsigned fw[2];
        for (unsigned i = 0; i < 2; i++)
            fw[i] = *(const unsigned *)&w2[g * 64 + h + i * 8 + 2 * t];
        MMA(out, fh, fw);
    }
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = out[i];
}
