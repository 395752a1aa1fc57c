// d += a · bᵀ with k split between two blocks, each of which begins in the middle of a row, through two stages of shared
// memory.
//@launch: kernel=product grid=2 block=32 arg=a:in:f16[16x96]=randn(seed=0) arg=b:in:f16[8x96]=randn(seed=1) arg=d:inout:f32[16x8]=zeros arg=k:u32=96
#include <cuda_fp16.h>

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

extern "C" __global__ void product(const half *a, const half *b, float *d, unsigned k)
{
    __shared__ __align__(16) half as[2][16][24], bs[2][8][24];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4, first = blockIdx.x * k / 2;
    float c[4] = {};
    for (unsigned i = 0; i < k / 32; i++) {
        unsigned from = first + 16 * i, stage = i % 2;
        *(uint4 *)&as[stage][lane / 2][lane % 2 * 8] = *(const uint4 *)&a[lane / 2 * k + from + lane % 2 * 8];
        if (lane < 16)
            *(uint4 *)&bs[stage][lane / 2][lane % 2 * 8] = *(const uint4 *)&b[lane / 2 * k + from + lane % 2 * 8];
        __syncwarp();
        unsigned fa[4], fb[2];
        LDMATRIX_X4(fa, &as[stage][lane % 16][lane / 16 * 8]);
        LDMATRIX_X2(fb, &bs[stage][lane % 8][lane / 8 % 2 * 8]);
        MMA(c, fa, fb);
    }
    for (unsigned i = 0; i < 4; i++)
        atomicAdd(&d[(g + i / 2 * 8) * 8 + 2 * t + i % 2], c[i]);
}
