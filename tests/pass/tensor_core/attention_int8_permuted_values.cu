// INT8 attention with P quantized again in registers: keys 2t, 2t+1, 2t+8 and 2t+9 of each 16 are neighbors in P and in V.
//@launch: kernel=attention grid=1 block=32 arg=q:in:s8[16x32]=randint(-8,8,seed=0) arg=k:in:s8[64x32]=randint(-8,8,seed=1) arg=v:in:s8[64x16]=randint(-8,8,seed=2) arg=o:out:f32[16x16] arg=keys:u32=64

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

static __device__ unsigned pack(float a, float b, float c, float d)
{
    unsigned low = (__float2int_rn(a) & 0xff) | (__float2int_rn(b) & 0xff) << 8;
    return low | (__float2int_rn(c) & 0xff) << 16 | __float2int_rn(d) << 24;
}

extern "C" __global__ void attention(const signed char *q, const signed char *k, const signed char *v, float *o, unsigned keys)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned fq[4];
    for (unsigned i = 0; i < 4; i++)
        fq[i] = *(const unsigned *)&q[(g + i % 2 * 8) * 32 + i / 2 * 16 + 4 * t];
    float sum[2][4] = {}, total[2] = {};
    for (unsigned first = 0; first < keys; first += 32) {
        float s[4][4];
        for (unsigned n = 0; n < 4; n++) {
            const signed char *row = &k[(first + 8 * n + g) * 32 + 4 * t];
            unsigned fk[2] = {*(const unsigned *)row, *(const unsigned *)(row + 16)};
            int acc[4] = {};
            MMA(acc, fq, fk);
            for (unsigned i = 0; i < 4; i++)
                total[i / 2] += s[n][i] = 127.0f * exp2f(fminf(acc[i] * 0.01f, 0.0f));
        }
        unsigned fp[4] = {pack(s[0][0], s[0][1], s[1][0], s[1][1]), pack(s[0][2], s[0][3], s[1][2], s[1][3]),
                          pack(s[2][0], s[2][1], s[3][0], s[3][1]), pack(s[2][2], s[2][3], s[3][2], s[3][3])};
        for (unsigned n = 0; n < 2; n++) {
            unsigned fv[2] = {};
            for (unsigned i = 0; i < 8; i++)
                fv[i / 4] |= (unsigned)(unsigned char)v[(first + i / 4 * 16 + i % 4 / 2 * 8 + 2 * t + i % 2) * 16 + 8 * n + g] << i % 4 * 8;
            int acc[4] = {};
            MMA(acc, fp, fv);
            for (unsigned i = 0; i < 4; i++)
                sum[n][i] += acc[i];
        }
    }
    for (unsigned n = 0; n < 2; n++)
        for (unsigned i = 0; i < 4; i++)
            o[(g + i / 2 * 8) * 16 + 8 * n + 2 * t + i % 2] = sum[n][i] / total[i / 2];
}
