// d = a · b through three stages of shared memory: A and B are read from the same stage.
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[16x160]=randn(seed=0) arg=b:in:f16[160x16]=randn(seed=1) arg=d:out:f32[16x16] arg=k:u32=160
#include <cuda_fp16.h>

#define COPY_16(to, from)                                                                                      \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),    \
                 "l"(from) : "memory")
#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define LDMATRIX_X2_TRANS(r, row)                                                                              \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"                              \
                 : "=r"(r[0]), "=r"(r[1]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

constexpr unsigned STAGES = 3;

static __device__ void copy_a(const half *a, half *to, unsigned tile, unsigned k, unsigned lane)
{
    for (unsigned i = lane; i < 64; i += 32)
        COPY_16(to + i / 4 * 40 + i % 4 * 8, a + i / 4 * k + 32 * tile + i % 4 * 8);
}

static __device__ void copy_b(const half *b, half *to, unsigned tile, unsigned lane)
{
    for (unsigned i = lane; i < 64; i += 32)
        COPY_16(to + i / 2 * 24 + i % 2 * 8, b + (32 * tile + i / 2) * 16 + i % 2 * 8);
}

extern "C" __global__ void product(const half *a, const half *b, float *d, unsigned k)
{
    __shared__ __align__(16) half as[STAGES][16][40], bs[STAGES][32][24];
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4, tiles = k / 32;
    for (unsigned i = 0; i < STAGES - 1; i++) {
        copy_a(a, &as[i][0][0], i, k, lane);
        copy_b(b, &bs[i][0][0], i, lane);
    }
    float c[2][4] = {};
    for (unsigned i = 0; i < tiles; i++) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncwarp();
        unsigned next = i + STAGES - 1;
        if (next < tiles) {
            copy_a(a, &as[next % STAGES][0][0], next, k, lane);
            copy_b(b, &bs[next % STAGES][0][0], next, lane);
        }
        for (unsigned kk = 0; kk < 32; kk += 16) {
            unsigned fa[4];
            LDMATRIX_X4(fa, &as[i % STAGES][lane % 16][kk + lane / 16 * 8]);
            for (unsigned n = 0; n < 2; n++) {
                unsigned fb[2];
                LDMATRIX_X2_TRANS(fb, &bs[i % STAGES][kk + lane % 16][8 * n]);
                MMA(c[n], fa, fb);
            }
        }
        __syncwarp();
    }
    for (unsigned n = 0; n < 2; n++)
        for (unsigned i = 0; i < 4; i++)
            d[(g + i / 2 * 8) * 16 + 8 * n + 2 * t + i % 2] = c[n][i];
}
