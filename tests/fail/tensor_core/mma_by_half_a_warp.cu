// One product tile whose mma stands inside `if (lane < rows)`. mma.sync.aligned must be executed by all 32 lanes
// together; with 16 of them the behavior is undefined. Hardware gives wrong sums, or hangs.
// Corpus: t07
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[16x16]=randn(seed=0) arg=b:in:f16[8x16]=randn(seed=1) arg=d:inout:f32[16x8]=zeros arg=rows:u32=16

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void product(const unsigned *a, const unsigned *b, float *d, unsigned rows)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned fa[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + 4 + t], a[(g + 8) * 8 + 4 + t]};
    unsigned fb[2] = {b[g * 8 + t], b[g * 8 + 4 + t]};
    float c[4] = {};
    if (lane < rows) {
        MMA(c, fa, fb); //~ lanes
        for (unsigned i = 0; i < 4; i++)
            d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
    }
}
