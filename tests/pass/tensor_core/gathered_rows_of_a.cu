// Rows of a by an index, as experts of a mixture take their tokens: d[i] = a[index[i]] · b.
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[64x32]=randn(seed=0) arg=index:in:u32[16]=arange arg=b:in:f16[8x32]=randn(seed=1) arg=d:out:f32[16x8]
#include <cuda_fp16.h>

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void product(const half *a, const unsigned *index, const half *b, float *d)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    const half *top = a + index[g] * 32, *bottom = a + index[g + 8] * 32;
    float c[4] = {};
    for (unsigned k = 0; k < 32; k += 16) {
        unsigned fa[4], fb[2];
        for (unsigned i = 0; i < 4; i++)
            fa[i] = *(const unsigned *)&(i % 2 ? bottom : top)[k + i / 2 * 8 + 2 * t];
        for (unsigned i = 0; i < 2; i++)
            fb[i] = *(const unsigned *)&b[g * 32 + k + i * 8 + 2 * t];
        MMA(c, fa, fb);
    }
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
