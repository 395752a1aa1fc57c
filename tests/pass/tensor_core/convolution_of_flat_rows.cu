// A convolution of 3 taps over 16 channels, on an image whose rows of 50 pixels the launch describes as 800 elements: rows of A
// are 16 elements apart, and overlap from one tap to the next.
//@launch: kernel=convolution grid=4 block=32 arg=x:in:f16[4x800]=randn(seed=0) arg=w:in:f16[8x48]=randn(seed=1) arg=d:out:f32[4x48x8]
#include <cuda_fp16.h>
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

extern "C" __global__ void convolution(const half *x, const half *w, float *d)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    x += blockIdx.x * 800, d += blockIdx.x * 48 * 8;
    for (unsigned first = 0; first < 48; first += 16) {
        float c[4] = {};
        for (unsigned tap = 0; tap < 3; tap++) {
            unsigned fa[4], fb[2];
            for (unsigned i = 0; i < 4; i++)
                fa[i] = *(const unsigned *)&x[(first + tap + g + i % 2 * 8) * 16 + i / 2 * 8 + 2 * t];
            for (unsigned i = 0; i < 2; i++)
                fb[i] = *(const unsigned *)&w[g * 48 + tap * 16 + i * 8 + 2 * t];
            MMA(c, fa, fb);
        }
        for (unsigned i = 0; i < 4; i++)
            d[(first + g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
    }
}
