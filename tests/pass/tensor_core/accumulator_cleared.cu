// Two product tiles after each other; the accumulator starts each of them from zero.
// Corpus: t13
//@launch: kernel=products grid=1 block=32 arg=a:in:f16[32x16]=randn(seed=0) arg=b:in:f16[8x16]=randn(seed=1) arg=d:out:f32[32x8] arg=tiles:u32=2

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void products(const unsigned *a, const unsigned *b, float *d, unsigned tiles)
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned fb[2] = {b[g * 8 + t], b[g * 8 + 4 + t]};
    for (unsigned tile = 0; tile < tiles; tile++) {
        const unsigned *row = a + (tile * 16 + g) * 8 + t;
        unsigned fa[4] = {row[0], row[64], row[4], row[68]};
        float c[4] = {};
        MMA(c, fa, fb);
        for (unsigned i = 0; i < 4; i++)
            d[(tile * 16 + g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
    }
}
