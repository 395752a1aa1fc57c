// Two warps store the probabilities of 16 rows each and multiply the rows that the other warp stored. Only a
// __syncwarp() stands between, which says nothing to the other warp. On hardware late rows are read stale.
// Corpus: t12
//@launch: kernel=row_sums grid=1 block=64 arg=p:in:f16[32x16]=uniform(0,1,seed=0) arg=d:out:f32[32x8]

#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void row_sums(const unsigned *p, float *d)
{
    __shared__ __align__(16) unsigned tile[32][8];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    for (unsigned i = lane; i < 128; i += 32)
        tile[warp * 16 + i / 8][i % 8] = p[warp * 128 + i]; //~ shared-race
    __syncwarp();
    unsigned row0 = (warp ^ 1) * 16, fa[4], ones[2] = {0x3c003c00, 0x3c003c00};
    LDMATRIX_X4(fa, &tile[row0 + lane % 16][lane / 16 * 4]); //~ shared-race
    float c[4] = {};
    MMA(c, fa, ones);
    for (unsigned i = 0; i < 4; i++)
        d[(row0 + g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
