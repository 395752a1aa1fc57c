// d = a · bᵀ with k = 64. The A tile is stored and loaded with the same swizzle: 16-byte chunk ^ row % 8.
// Corpus: t09
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[16x64]=randn(seed=0) arg=b:in:f16[8x64]=randn(seed=1) arg=d:out:f32[16x8]

#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void product(const uint4 *a, const unsigned *b, float *d)
{
    __shared__ uint4 tile[16][8];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (unsigned i = lane; i < 128; i += 32)
        tile[i / 8][i % 8 ^ i / 8 % 8] = a[i];
    __syncwarp();
    float c[4] = {};
#pragma unroll 1
    for (unsigned k = 0; k < 4; k++) {
        unsigned fa[4], fb[2] = {b[g * 32 + k * 8 + t], b[g * 32 + k * 8 + 4 + t]};
        LDMATRIX_X4(fa, &tile[lane % 16][(k * 2 + lane / 16) ^ lane % 8]);
        MMA(c, fa, fb);
    }
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
