// d = a · aᵀ for two matrices: A and B are tiles of one array.
//@launch: kernel=gram grid=2 block=32 arg=a:in:f16[2x16x64]=randn(seed=0) arg=d:out:f32[2x16x16]
#include <cuda_fp16.h>

#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void gram(const half *a, float *d)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    a += blockIdx.x * 16 * 64, d += blockIdx.x * 256;
    float c[2][4] = {};
    for (unsigned k = 0; k < 64; k += 16) {
        unsigned fa[4];
        for (unsigned i = 0; i < 4; i++)
            fa[i] = *(const unsigned *)&a[(g + i % 2 * 8) * 64 + k + i / 2 * 8 + 2 * t];
        for (unsigned n = 0; n < 2; n++) {
            unsigned fb[2] = {fa[n], fa[n + 2]};
            MMA(c[n], fa, fb);
        }
    }
    for (unsigned n = 0; n < 2; n++)
        for (unsigned i = 0; i < 4; i++)
            d[(g + i / 2 * 8) * 16 + 8 * n + 2 * t + i % 2] = c[n][i];
}
