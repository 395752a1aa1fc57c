// Half-precision attention with two stages of K and V tiles that are copied by cp.async: o = softmax(q kᵀ / 8) v for
// B=2 H=8 S=256 D=64. A block takes 64 queries of one head, 16 for each of four warps, and walks over the keys, 32 at
// a time; scores, probabilities and sums stay in registers.
//
// What is wrong: `wait_group 1` leaves the newest group under way. That is the next tile, except at the last tile,
// after which none was committed: there it is the tile being used. On hardware the copy has mostly landed by then.
//@launch: kernel=attention grid=16,4 block=128 arg=q:in:f16[2x8x256x64]=randn(seed=0) arg=k:in:f16[2x8x256x64]=randn(seed=1) arg=v:in:f16[2x8x256x64]=randn(seed=2) arg=o:out:f16[2x8x256x64]
#include <cuda_fp16.h>

constexpr unsigned S = 256, D = 64, TILE_Q = 64, TILE_K = 32, THREADS = 128, TILES = S / TILE_K;

struct SharedStorage {
    half k[2][TILE_K][D + 8], v[2][TILE_K][D + 8];
};

#define ADDRESS(p) ((unsigned)__cvta_generic_to_shared(p))
#define CP_ASYNC_16(to, from)                                                                                  \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ADDRESS(to)), "l"(from) : "memory")
#define LDMATRIX_X4(trans, r, row)                                                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"                   \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(ADDRESS(row)) : "memory")
#define MMA(c, a, b0, b1)                                                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

__device__ __forceinline__ void copy_tile(SharedStorage &s, unsigned stage, const half *k, const half *v)
{
    for (unsigned i = threadIdx.x; i < TILE_K * D / 8; i += THREADS) {
        unsigned row = i / (D / 8), column = i % (D / 8) * 8;
        CP_ASYNC_16(&s.k[stage][row][column], k + i * 8); //~ async-copy
        CP_ASYNC_16(&s.v[stage][row][column], v + i * 8); //~ async-copy
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ unsigned pack(float low, float high)
{
    half2 pair = __floats2half2_rn(low, high);
    return *(unsigned *)&pair;
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(const half *q, const half *k, const half *v, half *o)
{
    __shared__ __align__(16) SharedStorage s;
    unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    size_t keys = (size_t)blockIdx.x * S * D;
    size_t queries = keys + (blockIdx.y * TILE_Q + threadIdx.x / 32 * 16) * D;

    unsigned fq[D / 16][4];
    for (unsigned i = 0; i < D / 4; i++)
        fq[i / 4][i % 4] = *(const unsigned *)&q[queries + (g + i % 2 * 8) * D + i / 4 * 16 + i / 2 % 2 * 8 + 2 * t];
    float out[D / 8][4] = {}, row_max[2] = {-1e30f, -1e30f}, row_sum[2] = {};

    copy_tile(s, 0, k + keys, v + keys);
#pragma unroll 1
    for (unsigned tile = 0; tile < TILES; tile++) {
        unsigned stage = tile % 2;
        size_t next = keys + (tile + 1) * TILE_K * D;
        if (tile + 1 < TILES)
            copy_tile(s, stage ^ 1, k + next, v + next);
        asm volatile("cp.async.wait_group 1;" ::: "memory"); //~ async-copy
        __syncthreads();

        float p[TILE_K / 8][4] = {};
#pragma unroll
        for (unsigned n = 0; n < TILE_K / 8; n++)
#pragma unroll
            for (unsigned d = 0; d < D; d += 32) {
                unsigned fk[4];
                LDMATRIX_X4("", fk, &s.k[stage][n * 8 + lane % 8][d + lane / 8 * 8]); //~ async-copy
                MMA(p[n], fq[d / 16], fk[0], fk[1]);
                MMA(p[n], fq[d / 16 + 1], fk[2], fk[3]);
            }
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            float m = row_max[h], sum = 0.0f;
            for (unsigned i = 0; i < TILE_K / 4; i++)
                m = fmaxf(m, p[i / 2][2 * h + i % 2] * 0.125f);
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
            float alpha = __expf(row_max[h] - m);
            for (unsigned i = 0; i < TILE_K / 4; i++) {
                float &x = p[i / 2][2 * h + i % 2];
                x = __expf(x * 0.125f - m);
                sum += x;
            }
            for (unsigned i = 0; i < D / 4; i++)
                out[i / 2][2 * h + i % 2] *= alpha;
            row_max[h] = m;
            row_sum[h] = row_sum[h] * alpha + sum;
        }
#pragma unroll
        for (unsigned key = 0; key < TILE_K; key += 16) {
            float *a = p[key / 8], *b = p[key / 8 + 1];
            unsigned fp[4] = {pack(a[0], a[1]), pack(a[2], a[3]), pack(b[0], b[1]), pack(b[2], b[3])};
#pragma unroll
            for (unsigned d = 0; d < D; d += 16) {
                unsigned fv[4];
                LDMATRIX_X4(".trans", fv, &s.v[stage][key + lane % 16][d + lane / 16 * 8]); //~ async-copy
                MMA(out[d / 8], fp, fv[0], fv[1]);
                MMA(out[d / 8 + 1], fp, fv[2], fv[3]);
            }
        }
        __syncthreads(); // the stage may be filled again
    }
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        row_sum[h] += __shfl_xor_sync(0xffffffff, row_sum[h], 1);
        row_sum[h] += __shfl_xor_sync(0xffffffff, row_sum[h], 2);
        for (unsigned n = 0; n < D / 8; n++) {
            half2 pair = __floats2half2_rn(out[n][2 * h] / row_sum[h], out[n][2 * h + 1] / row_sum[h]);
            *(half2 *)&o[queries + (g + 8 * h) * D + n * 8 + 2 * t] = pair;
        }
    }
}
