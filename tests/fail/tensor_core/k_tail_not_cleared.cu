// Row sums of the first k columns of a 16×16 tile: columns from k on are never stored to shared memory, and ldmatrix
// hands what lay there to mma. Hardware sums what an earlier kernel left behind.
// Corpus: t08
//@launch: kernel=row_sums grid=1 block=32 arg=a:in:f16[16x16]=randn(seed=0) arg=d:out:f32[16x8] arg=k:u32=10

#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void row_sums(const unsigned *a, float *d, unsigned k)
{
    __shared__ __align__(16) unsigned tile[16][8];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (unsigned i = lane; i < 128; i += 32)
        if (i % 8 < k / 2)
            tile[i / 8][i % 8] = a[i];
    __syncwarp();
    unsigned fa[4], ones[2] = {0x3c003c00, 0x3c003c00};
    LDMATRIX_X4(fa, &tile[lane % 16][lane / 16 * 4]); //~ uninitialized
    float c[4] = {};
    MMA(c, fa, ones); //~ uninitialized
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
