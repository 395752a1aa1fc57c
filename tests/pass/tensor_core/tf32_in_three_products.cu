// A product of f32 matrices from three of tf32: the high and low parts of each element come from one place, and each k is added
// three times.
//@launch: kernel=product grid=1 block=32 arg=a:in:f32[16x32]=randn(seed=0) arg=b:in:f32[8x32]=randn(seed=1) arg=d:out:f32[16x8]

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "     \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

static __device__ void split(float x, unsigned &high, unsigned &low)
{
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(x));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(x - __uint_as_float(high)));
}

extern "C" __global__ void product(const float *a, const float *b, float *d)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    float c[4] = {};
    for (unsigned k = 0; k < 32; k += 8) {
        unsigned high_a[4], low_a[4], high_b[2], low_b[2];
        for (unsigned i = 0; i < 4; i++)
            split(a[(g + i % 2 * 8) * 32 + k + i / 2 * 4 + t], high_a[i], low_a[i]);
        for (unsigned i = 0; i < 2; i++)
            split(b[g * 32 + k + i * 4 + t], high_b[i], low_b[i]);
        MMA(c, low_a, high_b);
        MMA(c, high_a, low_b);
        MMA(c, high_a, high_b);
    }
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
