// d = a · bᵀ of 10 rows and 5 columns in a tile of 16 × 8: row 10 of the tile was never written, but its product is stored.
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[10x16]=randn(seed=0) arg=b:in:f16[5x16]=randn(seed=1) arg=d:out:f32[11x5] arg=m:u32=10 arg=n:u32=5

#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define LDMATRIX_X2(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"                                    \
                 : "=r"(r[0]), "=r"(r[1]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void product(const unsigned *a, const unsigned *b, float *d, unsigned m, unsigned n)
{
    __shared__ __align__(16) unsigned as[16][8], bs[8][8];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (unsigned i = lane; i < 8 * m; i += 32)
        as[i / 8][i % 8] = a[i];
    for (unsigned i = lane; i < 8 * n; i += 32)
        bs[i / 8][i % 8] = b[i];
    __syncwarp();
    unsigned fa[4], fb[2];
    LDMATRIX_X4(fa, &as[lane % 16][lane / 16 * 4]); //~ uninitialized
    LDMATRIX_X2(fb, &bs[lane % 8][lane / 8 % 2 * 4]);
    float c[4] = {};
    MMA(c, fa, fb);
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = g + i / 2 * 8, column = 2 * t + i % 2;
        if (row <= m && column < n)
            d[row * n + column] = c[i]; //~ uninitialized
    }
}
