// Attention on simulated FP8: codes of 8 bits, 128 is zero, one scale per head, decoded to f16 in the kernel.
// A block has 128 threads and computes 32 queries over tiles of 64 keys; both products run on tensor cores (WMMA).
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

constexpr int D = 64;        // elements of a row
constexpr int QUERIES = 32;  // of a block
constexpr int KEYS = 64;     // of a tile
constexpr int THREADS = 128;
constexpr int HALF_ROW = D + 8;    // padded rows of f16 and f32: fewer bank conflicts
constexpr int FLOAT_ROW = D + 4;

using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
using RightByRow = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major>;
using RightByColumn = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major>;
using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ __half decode(uint8_t code) { return __int2half_rn(int(code) - 128); }

// Rows of codes, decoded; rows beyond the end are zeros.
__device__ void load(__half *to, const uint8_t *from, int first, int count, int rows) {
    for (int at = threadIdx.x; at < count * (D / 4); at += THREADS) {
        const int row = at / (D / 4), column = at % (D / 4) * 4;
        uchar4 codes = make_uchar4(128, 128, 128, 128);
        if (first + row < rows) {
            codes = *reinterpret_cast<const uchar4 *>(from + size_t(first + row) * D + column);
        }
        __half *four = to + row * HALF_ROW + column;
        four[0] = decode(codes.x);
        four[1] = decode(codes.y);
        four[2] = decode(codes.z);
        four[3] = decode(codes.w);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const uint8_t *__restrict__ q, const uint8_t *__restrict__ k, const uint8_t *__restrict__ v,
          const float *__restrict__ q_scale, const float *__restrict__ k_scale, const float *__restrict__ v_scale,
          __half *__restrict__ o, int heads, int rows, float softmax_scale) {
    __shared__ __align__(32) __half sQ[QUERIES * HALF_ROW], sK[KEYS * HALF_ROW], sV[KEYS * HALF_ROW];
    __shared__ __align__(32) __half sP[QUERIES * HALF_ROW];
    __shared__ __align__(32) float sS[QUERIES * FLOAT_ROW], sO[QUERIES * FLOAT_ROW];
    __shared__ float sMax[QUERIES], sSum[QUERIES];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.z * heads + blockIdx.y;
    const int first = blockIdx.x * QUERIES;
    const size_t start = size_t(head) * rows * D;
    // Exponents have base 2.
    const float factor = q_scale[head] * k_scale[head] * softmax_scale * 1.4426950408889634f;
    // The part of both products that a warp computes: 16 rows and 32 columns.
    const int row = warp % 2 * 16, column = warp / 2 * 32;

    // phase: load
    load(sQ, q + start, first, QUERIES, rows);
    for (int at = threadIdx.x; at < QUERIES * FLOAT_ROW; at += THREADS) sO[at] = 0.0f;
    if (threadIdx.x < QUERIES) {
        sMax[threadIdx.x] = -INFINITY;
        sSum[threadIdx.x] = 0.0f;
    }
    for (int tile = 0; tile < rows; tile += KEYS) {
        // phase: load
        load(sK, k + start, tile, KEYS, rows);
        load(sV, v + start, tile, KEYS, rows);
        __syncthreads();

        // phase: Q.K
        for (int part = 0; part < 32; part += 16) {
            Sum scores;
            wmma::fill_fragment(scores, 0.0f);
            for (int at = 0; at < D; at += 16) {
                Left queries;
                RightByColumn keys;
                wmma::load_matrix_sync(queries, sQ + row * HALF_ROW + at, HALF_ROW);
                wmma::load_matrix_sync(keys, sK + (column + part) * HALF_ROW + at, HALF_ROW);
                wmma::mma_sync(scores, queries, keys, scores);
            }
            wmma::store_matrix_sync(sS + row * FLOAT_ROW + column + part, scores, FLOAT_ROW, wmma::mem_row_major);
        }
        __syncthreads();  // the scores of a row come from two warps

        // phase: softmax
        for (int r = warp * 8; r < warp * 8 + 8; ++r) {
            const bool low = tile + lane < rows, high = tile + lane + 32 < rows;
            const float a = low ? sS[r * FLOAT_ROW + lane] * factor : -INFINITY;
            const float b = high ? sS[r * FLOAT_ROW + lane + 32] * factor : -INFINITY;
            float most = fmaxf(a, b);
            for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
            const float before = sMax[r], now = fmaxf(before, most);
            const float pa = exp2f(a - now), pb = exp2f(b - now);
            float sum = pa + pb;
            for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
            const float shrink = exp2f(before - now);
            sP[r * HALF_ROW + lane] = __float2half(pa);
            sP[r * HALF_ROW + lane + 32] = __float2half(pb);
            sO[r * FLOAT_ROW + lane] *= shrink;
            sO[r * FLOAT_ROW + lane + 32] *= shrink;
            __syncwarp();  // all lanes have read the row's maximum
            if (lane == 0) {
                sMax[r] = now;
                sSum[r] = sSum[r] * shrink + sum;
            }
        }
        __syncthreads();

        // phase: P.V
        for (int part = 0; part < 32; part += 16) {
            float *place = sO + row * FLOAT_ROW + column + part;
            Sum output;
            wmma::load_matrix_sync(output, place, FLOAT_ROW, wmma::mem_row_major);
            for (int at = 0; at < KEYS; at += 16) {
                Left weights;
                RightByRow values;
                wmma::load_matrix_sync(weights, sP + row * HALF_ROW + at, HALF_ROW);
                wmma::load_matrix_sync(values, sV + at * HALF_ROW + column + part, HALF_ROW);
                wmma::mma_sync(output, weights, values, output);
            }
            wmma::store_matrix_sync(place, output, FLOAT_ROW, wmma::mem_row_major);
        }
        __syncthreads();
    }

    // phase: store
    for (int at = threadIdx.x; at < QUERIES * D; at += THREADS) {
        const int r = at / D, c = at % D;
        if (first + r < rows) {
            o[start + size_t(first + r) * D + c] = __float2half(sO[r * FLOAT_ROW + c] / sSum[r] * v_scale[head]);
        }
    }
}
