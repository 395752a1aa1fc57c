// One 16×16 by 16×8 product: the A tile goes through shared memory to ldmatrix. The __syncwarp() between the stores
// and ldmatrix is missing. ldmatrix reads the rows that other lanes stored, and its `.sync` converges lanes but orders
// no memory; it mostly works on hardware, because a warp that never diverged issues its stores first.
// Corpus: t01
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[16x16]=randn(seed=0) arg=d:out:f32[16x8]

#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void product(const unsigned *a, float *d)
{
    __shared__ __align__(16) unsigned tile[16][8];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (unsigned i = lane; i < 128; i += 32)
        tile[i / 8][i % 8] = a[i]; //~ shared-race
    unsigned fa[4], ones[2] = {0x3c003c00, 0x3c003c00};
    LDMATRIX_X4(fa, &tile[lane % 16][lane / 16 * 4]); //~ shared-race
    float c[4] = {};
    MMA(c, fa, ones);
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
