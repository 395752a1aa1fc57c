// FP8 attention, the baseline: o = softmax(q kᵀ / 8) v for B=2 H=8 S=256 D=64. Inputs are 8-bit linear codes,
// value = (code - 128) · scale of the head. A block takes 32 queries of one head and walks over the keys, 32 at a time:
// each of four warps computes a 16×16 quarter of the scores by wmma and stores it to shared memory; then four threads
// share a row of the softmax, 8 scores each; then the warps add probabilities times values to the output by wmma.
// A __syncthreads() stands between storing the scores and the softmax that reads rows which other warps stored.
//@launch: kernel=attention grid=16,8 block=128 arg=q:in:u8[2x8x256x64]=randint(0,255,seed=0) arg=k:in:u8[2x8x256x64]=randint(0,255,seed=1) arg=v:in:u8[2x8x256x64]=randint(0,255,seed=2) arg=scale:in:f32[3x8]=uniform(0.008,0.012,seed=3) arg=o:out:f16[2x8x256x64]
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

constexpr unsigned H = 8, S = 256, D = 64, TILE_Q = 32, TILE_K = 32, THREADS = 128;
constexpr unsigned PITCH = D + 8, SCORE_PITCH = TILE_K + 4, PROBABILITY_PITCH = TILE_K + 8, OUT_PITCH = D + 4;

struct SharedStorage {
    half q[TILE_Q][PITCH], k[TILE_K][PITCH], v[TILE_K][PITCH];
    float score[TILE_Q][SCORE_PITCH];
    half probability[TILE_Q][PROBABILITY_PITCH];
    float out[TILE_Q][OUT_PITCH];
};

__device__ void decode(half (*tile)[PITCH], const unsigned char *codes, unsigned rows, float scale)
{
    for (unsigned i = threadIdx.x; i < rows * D; i += THREADS)
        tile[i / D][i % D] = __float2half((codes[i] - 128.0f) * scale);
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const unsigned char *q, const unsigned char *k, const unsigned char *v, const float *scale, half *o)
{
    __shared__ __align__(32) SharedStorage s;
    unsigned warp = threadIdx.x / 32, head = blockIdx.x % H;
    unsigned row = threadIdx.x / 4, part = threadIdx.x % 4;
    size_t keys = (size_t)blockIdx.x * S * D, queries = keys + blockIdx.y * TILE_Q * D;
    unsigned row0 = warp / 2 * 16, key0 = warp % 2 * 16, column0 = warp % 2 * 32;
    float row_max = -1e30f, row_sum = 0.0f, *out = &s.out[row][part * 16];

    decode(s.q, q + queries, TILE_Q, scale[head]);
    for (unsigned i = threadIdx.x; i < TILE_Q * SCORE_PITCH; i += THREADS)
        s.score[i / SCORE_PITCH][i % SCORE_PITCH] = 0.0f;
    for (unsigned i = 0; i < D / 4; i++)
        out[i] = 0.0f;
    for (unsigned key = 0; key < S; key += TILE_K) {
        __syncthreads(); // the last tile is used up
        decode(s.k, k + keys + key * D, TILE_K, scale[H + head]);
        decode(s.v, v + keys + key * D, TILE_K, scale[2 * H + head]);
        __syncthreads();

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> quarter;
        wmma::fill_fragment(quarter, 0.0f);
        for (unsigned d = 0; d < D; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
            wmma::load_matrix_sync(fq, &s.q[row0][d], PITCH);
            wmma::load_matrix_sync(fk, &s.k[key0][d], PITCH);
            wmma::mma_sync(quarter, fq, fk, quarter);
        }
        wmma::store_matrix_sync(&s.score[row0][key0], quarter, SCORE_PITCH, wmma::mem_row_major);
        __syncthreads();

        float x[TILE_K / 4], tile_max = -1e30f, tile_sum = 0.0f;
        for (unsigned j = 0; j < TILE_K / 4; j++)
            x[j] = s.score[row][part * 8 + j];
        for (unsigned j = 0; j < TILE_K / 4; j++)
            tile_max = fmaxf(tile_max, x[j] * 0.125f);
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 1));
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 2));
        float new_max = fmaxf(row_max, tile_max), alpha = __expf(row_max - new_max);
        for (unsigned j = 0; j < TILE_K / 4; j++) {
            x[j] = __expf(x[j] * 0.125f - new_max);
            tile_sum += x[j];
            s.probability[row][part * 8 + j] = __float2half(x[j]);
        }
        tile_sum += __shfl_xor_sync(0xffffffff, tile_sum, 1);
        tile_sum += __shfl_xor_sync(0xffffffff, tile_sum, 2);
        row_max = new_max;
        row_sum = row_sum * alpha + tile_sum;

        for (unsigned i = 0; i < D / 4; i++)
            out[i] *= alpha;
        __syncthreads();

        for (unsigned column = column0; column < column0 + 32; column += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
            wmma::load_matrix_sync(sum, &s.out[row0][column], OUT_PITCH, wmma::mem_row_major);
            for (unsigned j = 0; j < TILE_K; j += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
                wmma::load_matrix_sync(fp, &s.probability[row0][j], PROBABILITY_PITCH);
                wmma::load_matrix_sync(fv, &s.v[j][column], PITCH);
                wmma::mma_sync(sum, fp, fv, sum);
            }
            wmma::store_matrix_sync(&s.out[row0][column], sum, OUT_PITCH, wmma::mem_row_major);
        }
    }
    __syncthreads();
    for (unsigned i = 0; i < D / 4; i++)
        o[queries + row * D + part * 16 + i] = __float2half(out[i] / row_sum);
}
