// d = a · bᵀ with the fragments loaded by hand from global memory.
// Corpus: t03
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[16x16]=randn(seed=0) arg=b:in:f16[8x16]=randn(seed=1) arg=d:out:f32[16x8]

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void product(const unsigned *a, const unsigned *b, float *d)
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned fa[4], fb[2];
    fa[0] = a[g * 8 + t];
    fa[1] = a[(g + 8) * 8 + t];
    fa[2] = a[g * 8 + 4 + t];
    fa[3] = a[(g + 8) * 8 + 4 + t];
    fb[0] = b[g * 8 + t];
    fb[1] = b[g * 8 + 4 + t];
    float c[4] = {};
    MMA(c, fa, fb);
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
