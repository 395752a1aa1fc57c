// FP8 attention with P kept in registers: a lane holds keys 2t, 2t+1, 2t+8 and 2t+9 of each 16, and V is loaded in the same
// order.
//@launch: kernel=attention grid=1 block=32 arg=q:in:e4m3[16x32]=randn(seed=0) arg=k:in:e4m3[64x32]=randn(seed=1) arg=v:in:e4m3[64x16]=randn(seed=2) arg=o:out:f32[16x16] arg=keys:u32=64

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

static __device__ unsigned pack(float a, float b, float c, float d)
{
    unsigned short low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
    return low | (unsigned)high << 16;
}

extern "C" __global__ void attention(const unsigned char *q, const unsigned char *k, const unsigned char *v, float *o,
                                     unsigned keys)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned fq[4];
    for (unsigned i = 0; i < 4; i++)
        fq[i] = *(const unsigned *)&q[(g + i % 2 * 8) * 32 + i / 2 * 16 + 4 * t];
    float sum[2][4] = {}, total[2] = {};
    for (unsigned first = 0; first < keys; first += 32) {
        float s[4][4] = {};
        for (unsigned n = 0; n < 4; n++) {
            const unsigned char *row = &k[(first + 8 * n + g) * 32 + 4 * t];
            unsigned fk[2] = {*(const unsigned *)row, *(const unsigned *)(row + 16)};
            MMA(s[n], fq, fk);
            for (unsigned i = 0; i < 4; i++)
                total[i / 2] += s[n][i] = exp2f(fminf(s[n][i] * 0.25f, 8.0f));
        }
        unsigned fp[4] = {pack(s[0][0], s[0][1], s[1][0], s[1][1]), pack(s[0][2], s[0][3], s[1][2], s[1][3]),
                          pack(s[2][0], s[2][1], s[3][0], s[3][1]), pack(s[2][2], s[2][3], s[3][2], s[3][3])};
        for (unsigned n = 0; n < 2; n++) {
            unsigned fv[2] = {};
            for (unsigned i = 0; i < 8; i++)
                fv[i / 4] |= (unsigned)v[(first + i / 4 * 16 + i % 4 / 2 * 8 + 2 * t + i % 2) * 16 + 8 * n + g] << i % 4 * 8;
            MMA(sum[n], fp, fv);
        }
    }
    for (unsigned h = 0; h < 2; h++) {
        total[h] += __shfl_xor_sync(~0u, total[h], 1);
        total[h] += __shfl_xor_sync(~0u, total[h], 2);
    }
    for (unsigned n = 0; n < 2; n++)
        for (unsigned i = 0; i < 4; i++)
            o[(g + i / 2 * 8) * 16 + 8 * n + 2 * t + i % 2] = sum[n][i] / total[i / 2];
}
