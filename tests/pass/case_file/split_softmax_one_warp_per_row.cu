// FP8 attention, softmax fused into the registers of the score tiles: o = softmax(q kᵀ / 8) v for B=2 H=8 S=256 D=64.
// Inputs are 8-bit linear codes, value = (code - 128) · scale of the head. A block takes a tile of queries of one head
// and walks over the keys, 32 at a time; one warp updates 16 rows with 16 keys at a time.
// Every row belongs to one warp, which takes both 16-column blocks of a tile after each other.
//@launch: kernel=attention grid=16,4 block=128 arg=q:in:u8[2x8x256x64]=randint(0,255,seed=0) arg=k:in:u8[2x8x256x64]=randint(0,255,seed=1) arg=v:in:u8[2x8x256x64]=randint(0,255,seed=2) arg=scale:in:f32[3x8]=uniform(0.008,0.012,seed=3) arg=o:out:f16[2x8x256x64]
#include <cuda_fp16.h>

constexpr unsigned H = 8, S = 256, D = 64, TILE_Q = 64, TILE_K = 32, THREADS = 128;

struct SharedStorage {
    half q[TILE_Q][D + 8], k[TILE_K][D + 8], v[TILE_K][D + 8];
    float row_max[TILE_Q], row_sum[TILE_Q], out[TILE_Q][D];
};

#define LDMATRIX_X4(trans, r, row)                                                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"                   \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")
#define MMA(c, a, b0, b1)                                                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

__device__ void decode(half (*tile)[D + 8], const unsigned char *codes, unsigned rows, float scale)
{
    for (unsigned i = threadIdx.x; i < rows * D; i += THREADS)
        tile[i / D][i % D] = __float2half((codes[i] - 128.0f) * scale);
}

__device__ unsigned pack(float low, float high)
{
    half2 pair = __floats2half2_rn(low, high);
    return *(unsigned *)&pair;
}

// One online-softmax step of the rows row0 … row0+15 with the keys key0 … key0+15 of the tile.
__device__ __forceinline__ void update(SharedStorage &s, unsigned row0, unsigned key0)
{
    unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float score[2][4] = {}, alpha[2];
#pragma unroll
    for (unsigned d = 0; d < D; d += 16) {
        unsigned fq[4], fk[4];
        LDMATRIX_X4("", fq, &s.q[row0 + lane % 16][d + lane / 16 * 8]);
        LDMATRIX_X4("", fk, &s.k[key0 + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]);
        MMA(score[0], fq, fk[0], fk[1]);
        MMA(score[1], fq, fk[2], fk[3]);
    }
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        unsigned row = row0 + g + 8 * h;
        float *a = &score[0][2 * h], *b = &score[1][2 * h];
        float old = s.row_max[row];
        float m = fmaxf(fmaxf(a[0], a[1]), fmaxf(b[0], b[1])) * 0.125f;
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
        m = fmaxf(fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2)), old);
        for (unsigned i = 0; i < 2; i++) {
            a[i] = __expf(a[i] * 0.125f - m);
            b[i] = __expf(b[i] * 0.125f - m);
        }
        float sum = a[0] + a[1] + b[0] + b[1];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        alpha[h] = __expf(old - m);
        __syncwarp(); // all four lanes of the row have read the old maximum
        if (t == 0) {
            s.row_max[row] = m;
            s.row_sum[row] = s.row_sum[row] * alpha[h] + sum;
        }
    }
    unsigned fp[4] = {pack(score[0][0], score[0][1]), pack(score[0][2], score[0][3]),
                      pack(score[1][0], score[1][1]), pack(score[1][2], score[1][3])};
#pragma unroll
    for (unsigned d = 0; d < D; d += 16) {
        unsigned fv[4];
        LDMATRIX_X4(".trans", fv, &s.v[key0 + lane % 16][d + lane / 16 * 8]);
        float sum[2][4] = {};
        MMA(sum[0], fp, fv[0], fv[1]);
        MMA(sum[1], fp, fv[2], fv[3]);
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            float *out = &s.out[row0 + g + i / 2 % 2 * 8][d + i / 4 * 8 + 2 * t + i % 2];
            *out = *out * alpha[i / 2 % 2] + sum[i / 4][i % 4];
        }
    }
    __syncwarp(); // the next update of these rows sees this one's statistics
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const unsigned char *q, const unsigned char *k, const unsigned char *v, const float *scale, half *o)
{
    __shared__ __align__(16) SharedStorage s;
    unsigned warp = threadIdx.x / 32, head = blockIdx.x % H;
    size_t keys = (size_t)blockIdx.x * S * D, queries = keys + blockIdx.y * TILE_Q * D;

    decode(s.q, q + queries, TILE_Q, scale[head]);
    for (unsigned i = threadIdx.x; i < TILE_Q * D; i += THREADS)
        s.out[i / D][i % D] = 0.0f;
    if (threadIdx.x < TILE_Q) {
        s.row_max[threadIdx.x] = -1e30f;
        s.row_sum[threadIdx.x] = 0.0f;
    }
    for (unsigned key = 0; key < S; key += TILE_K) {
        __syncthreads(); // the last tile is used up
        decode(s.k, k + keys + key * D, TILE_K, scale[H + head]);
        decode(s.v, v + keys + key * D, TILE_K, scale[2 * H + head]);
        __syncthreads();
#pragma unroll 1
        for (unsigned key0 = 0; key0 < TILE_K; key0 += 16)
            update(s, warp * 16, key0);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < TILE_Q * D; i += THREADS)
        o[queries + i] = __float2half(s.out[i / D][i % D] / s.row_sum[i / D]);
}
