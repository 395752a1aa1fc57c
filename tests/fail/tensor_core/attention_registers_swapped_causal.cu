// Flash attention with a causal mask, in which registers 1 and 2 of P are swapped.
//@launch: kernel=attention grid=2 block=32 arg=q:in:bf16[2x16x16]=randn(seed=0) arg=k:in:bf16[2x32x16]=randn(seed=1) arg=v:in:bf16[2x32x16]=randn(seed=2) arg=o:out:f32[2x16x16] arg=keys:u32=32
#include <cuda_bf16.h>

#define LDMATRIX_X2_TRANS(r, row)                                                                              \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"                              \
                 : "=r"(r[0]), "=r"(r[1]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

static __device__ unsigned pack(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(unsigned *)&pair;
}

extern "C" __global__ void attention(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v, float *o, unsigned keys)
{
    __shared__ __align__(16) __nv_bfloat16 tile[32][24];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4, head = blockIdx.x;
    q += head * 256, o += head * 256;
    k += head / 1 * keys * 16, v += head / 1 * keys * 16;
    unsigned fq[4];
    for (unsigned i = 0; i < 4; i++)
        fq[i] = *(const unsigned *)&q[(g + i % 2 * 8) * 16 + i / 2 * 8 + 2 * t];
    float sum[2][4] = {}, largest[2] = {-1e30f, -1e30f}, total[2] = {};
    for (unsigned first = 0; first < keys; first += 32) {
        __syncwarp();
        for (unsigned i = lane; i < 64; i += 32)
            *(uint4 *)&tile[i / 2][i % 2 * 8] = *(const uint4 *)&v[(first + i / 2) * 16 + i % 2 * 8];
        __syncwarp();
        float s[4][4] = {};
        for (unsigned n = 0; n < 4; n++) {
            const __nv_bfloat16 *row = &k[(first + 8 * n + g) * 16 + 2 * t];
            unsigned fk[2] = {*(const unsigned *)row, *(const unsigned *)(row + 8)};
            MMA(s[n], fq, fk);
            for (unsigned i = 0; i < 4; i++)
                s[n][i] *= 0.36f;
            for (unsigned i = 0; i < 4; i++)
                if (first + 8 * n + 2 * t + i % 2 > keys - 16 + g + i / 2 * 8)
                    s[n][i] = -1e30f;
        }
        for (unsigned h = 0; h < 2; h++) {
            float m = largest[h];
            for (unsigned n = 0; n < 4; n++)
                m = fmaxf(m, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
            float shrink = exp2f(largest[h] - m);
            largest[h] = m;
            total[h] *= shrink;
            for (unsigned n = 0; n < 2; n++)
                sum[n][2 * h] *= shrink, sum[n][2 * h + 1] *= shrink;
            for (unsigned n = 0; n < 4; n++)
                for (unsigned i = 2 * h; i < 2 * h + 2; i++)
                    total[h] += s[n][i] = exp2f(s[n][i] - m);
        }
        for (unsigned i = 0; i < 2; i++) {
            unsigned fp[4] = {pack(s[2 * i][0], s[2 * i][1]), pack(s[2 * i + 1][0], s[2 * i + 1][1]),
                              pack(s[2 * i][2], s[2 * i][3]), pack(s[2 * i + 1][2], s[2 * i + 1][3])};
            for (unsigned n = 0; n < 2; n++) {
                unsigned fv[2];
                LDMATRIX_X2_TRANS(fv, &tile[16 * i + lane % 16][8 * n]);
                MMA(sum[n], fp, fv); //~ provenance
            }
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
