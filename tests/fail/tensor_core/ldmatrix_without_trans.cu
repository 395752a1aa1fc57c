// d = a · b with b stored by rows, [k][n]. The B operand wants two neighbors along k in a register, so b must be
// loaded with `.trans`; without it every 8×8 quarter arrives transposed. Hardware computes a wrong product, silently.
// Corpus: t02
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[16x16]=randn(seed=0) arg=b:in:f16[16x8]=randn(seed=1) arg=d:out:f32[16x8]

#define ADDRESS(p) ((unsigned)__cvta_generic_to_shared(p))
#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(ADDRESS(row)) : "memory")
#define LDMATRIX_X2(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"                                    \
                 : "=r"(r[0]), "=r"(r[1]) : "r"(ADDRESS(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void product(const unsigned *a, const unsigned *b, float *d)
{
    __shared__ __align__(16) unsigned tile_a[16][8], tile_b[16][4];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (unsigned i = lane; i < 128; i += 32)
        tile_a[i / 8][i % 8] = a[i];
    for (unsigned i = lane; i < 64; i += 32)
        tile_b[i / 4][i % 4] = b[i];
    __syncwarp();
    unsigned fa[4], fb[2];
    LDMATRIX_X4(fa, &tile_a[lane % 16][lane / 16 * 4]);
    LDMATRIX_X2(fb, tile_b[lane % 16]);
    float c[4] = {};
    MMA(c, fa, fb); //~ provenance
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
