// Attention on accumulators: a warp has 16 query rows, its scores are accumulators of m16n8, eight keys each, and a lane has
// its share of the rows g and g + 8 (fragment.cuh).
#pragma once
#include "fragment.cuh"
#include "softmax.cuh"
#include "tile.cuh"
#include "work.cuh"

// A lane's two rows.
struct WarpRows {
    unsigned index[2];   // of the head's rows
    unsigned visible[2]; // keys that the row sees; none if there is no such row
    float factor[2];     // of the row's scores, the scale of the keys aside
    float alpha[2];      // factor of what was summed before the last tile
    Softmax softmax[2];

    __device__ __forceinline__ WarpRows(const Work &work, const Lane &lane)
    {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            index[h] = work.first_row + threadIdx.x / 32 * 16 + lane.row(2 * h);
            visible[h] = index[h] < work.rows ? work.visible(index[h]) : 0;
            factor[h] = index[h] < work.rows ? work.q_factor(index[h]) : 0.0f;
        }
    }
};

// The warp's 16 rows as A operands, 32 bytes of each row in each.
template <unsigned STEPS, unsigned ROWS>
__device__ __forceinline__ void load_queries(unsigned (&q)[STEPS][4], SwizzledTile<ROWS, STEPS * 32> &tile, const Lane &lane)
{
#pragma unroll
    for (unsigned i = 0; i < STEPS; i++)
        ldmatrix_x4(q[i], tile.address(threadIdx.x / 32 * 16 + lane.lane % 16, 2 * i + lane.lane / 16));
}

// scores = Q · Kᵀ. MMA takes 32 bytes of each row: 16 elements in f16, 32 in FP8.
template <auto MMA, unsigned TILES, unsigned STEPS>
__device__ __forceinline__ void score(float (&scores)[TILES][4], const unsigned (&q)[STEPS][4],
                                      SwizzledTile<TILES * 8, STEPS * 32> &keys, const Lane &lane)
{
#pragma unroll
    for (unsigned n = 0; n < TILES; n++) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            scores[n][i] = 0.0f;
#pragma unroll
        for (unsigned i = 0; i + 1 < STEPS; i += 2) {
            unsigned k[4];
            ldmatrix_x4(k, keys.address(lane.lane % 8, 2 * i + lane.lane / 8, n * 8));
            MMA(scores[n], q[i], k[0], k[1]);
            MMA(scores[n], q[i + 1], k[2], k[3]);
        }
        if constexpr (STEPS % 2 == 1) {
            unsigned k[2];
            ldmatrix_x2(k, keys.address(lane.lane % 8, 2 * (STEPS - 1) + lane.lane / 8 % 2, n * 8));
            MMA(scores[n], q[STEPS - 1], k[0], k[1]);
        }
    }
}

// The same with Q in shared memory, from which 64 bytes of each row are read at a time.
template <auto MMA, unsigned TILES, unsigned ROWS, unsigned BYTES>
__device__ __forceinline__ void score(float (&scores)[TILES][4], SwizzledTile<ROWS, BYTES> &queries,
                                      SwizzledTile<TILES * 8, BYTES> &keys, const Lane &lane)
{
#pragma unroll
    for (unsigned i = 0; i < TILES * 4; i++)
        scores[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < BYTES / 32; i += 2) {
        unsigned q[2][4];
#pragma unroll
        for (unsigned j = 0; j < 2; j++)
            ldmatrix_x4(q[j], queries.address(threadIdx.x / 32 * 16 + lane.lane % 16, 2 * (i + j) + lane.lane / 16));
#pragma unroll
        for (unsigned n = 0; n < TILES; n++) {
            unsigned k[4];
            ldmatrix_x4(k, keys.address(lane.lane % 8, 2 * i + lane.lane / 8, n * 8));
            MMA(scores[n], q[0], k[0], k[1]);
            MMA(scores[n], q[1], k[2], k[3]);
            __syncwarp(); // ptxas would load more ahead than there are registers
        }
    }
}

// Scores become weights, 2^SHIFT times as large. `first` is the tile's first key, `k_scale(i)` the scale of its i-th.
template <int SHIFT, unsigned TILES, class KScale>
__device__ __forceinline__ void soften(float (&scores)[TILES][4], WarpRows &rows, unsigned first, const Lane &lane,
                                       KScale k_scale)
{
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        float maximum = -infinity();
#pragma unroll
        for (unsigned i = 0; i < TILES * 2; i++) {
            float &y = scores[i / 2][2 * h + i % 2];
            unsigned key = i / 2 * 8 + lane.col(i % 2);
            y = first + key < rows.visible[h] ? __fmul_rn(y, __fmul_rn(rows.factor[h], k_scale(key))) : -infinity();
            maximum = fmaxf(maximum, y);
        }
        Softmax &softmax = rows.softmax[h];
        rows.alpha[h] = softmax.raise(quad_max(maximum));
        float origin = SHIFT == 0 ? softmax.origin() : __fsub_rn(softmax.origin(), SHIFT), sum = 0.0f;
#pragma unroll
        for (unsigned i = 0; i < TILES * 2; i++) {
            float &p = scores[i / 2][2 * h + i % 2];
            p = ex2(__fsub_rn(p, origin));
            sum = __fadd_rn(sum, p);
        }
        softmax.sum = __fmaf_rn(softmax.sum, rows.alpha[h], sum);
    }
}

// The end of the rows: `put(h, factor)` stores the accumulators of row h times `factor`, which is `scale` over the row's sum.
template <int SHIFT, class Put>
__device__ __forceinline__ void store_rows(const WarpRows &rows, const Work &work, const Lane &lane, float scale, Put put)
{
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        float sum = quad_sum(rows.softmax[h].sum);
        if (rows.index[h] >= work.rows)
            continue;
        put(h, __fmul_rn(reciprocal(sum), scale));
        if (LSE && lane.t == 0)
            work.p.lse[work.lse_index(rows.index[h])] = log_sum(rows.softmax[h].origin(), sum, SHIFT);
    }
}

// 16 rows × TILES · 8 columns of f16, two neighboring columns of a lane at a time.
template <unsigned TILES>
__device__ __forceinline__ void store_f16(const float (&out)[TILES][4], const WarpRows &rows, const Work &work,
                                          const Lane &lane)
{
    store_rows<0>(rows, work, lane, work.v_scale(0), [&](unsigned h, float factor) {
        unsigned short *to = work.o(rows.index[h]) + lane.col(0);
#pragma unroll
        for (unsigned n = 0; n < TILES; n++)
            *reinterpret_cast<unsigned *>(to + n * 8) =
                cvt_f16x2(__fmul_rn(out[n][2 * h], factor), __fmul_rn(out[n][2 * h + 1], factor));
    });
}
