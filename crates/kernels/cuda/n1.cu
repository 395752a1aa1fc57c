// n1-tiled: the first rung on FP8 codes: scalar, shared tiles, online softmax.
//
// The one change from a row that reads all of K and V by itself: 16 rows share each tile of 32 keys, and the softmax is
// brought up to date with every tile, so that scores are never written. A warp owns a row from the scores to the sums: for
// the scores a lane has a key, for P·V it has columns, and weights go from lane to lane by shuffle.
#include "fragment.cuh"
#include "softmax.cuh"
#include "tile.cuh"
#include "work.cuh"

constexpr unsigned D = HEAD_DIM;

struct Tile {
    static constexpr unsigned ROWS = 16, KEYS = 32, WARPS = 4;
    static constexpr unsigned THREADS = WARPS * 32, ROWS_OF_WARP = ROWS / WARPS;
    static_assert(D == 64 || D == 128, "a lane has two or four columns");
    static_assert(KEYS == 32, "a key for each lane");
    static_assert(ROWS % WARPS == 0, "as many rows for each warp");
    static_assert(!SPLIT, "a block takes all keys of its rows");
};

// Codes are decoded once, on the way in. PITCH floats from row to row.
template <unsigned ROWS, unsigned PITCH> struct __align__(16) FloatTile { // [ROWS][D] f32
    float values[ROWS][PITCH];

    template <class RowOf> __device__ __forceinline__ void load(unsigned first, unsigned end, RowOf row_of)
    {
        load_rows<ROWS, D, Tile::THREADS, uint2>(first, end, row_of, [&](unsigned row, unsigned piece, uint2 codes) {
            uint4 h = dequantize(codes);
            float4 *to = reinterpret_cast<float4 *>(&values[row][piece * 8]);
            to[0] = make_float4(cvt_f32_f16(h.x), cvt_f32_f16(h.x >> 16), cvt_f32_f16(h.y), cvt_f32_f16(h.y >> 16));
            to[1] = make_float4(cvt_f32_f16(h.z), cvt_f32_f16(h.z >> 16), cvt_f32_f16(h.w), cvt_f32_f16(h.w >> 16));
        });
    }
};

struct SharedStorage {
    FloatTile<Tile::ROWS, D> q;
    FloatTile<Tile::KEYS, D + 4> k; // lanes read four elements of a row each: eight rows are all banks, each once
    FloatTile<Tile::KEYS, D> v;     // lanes read neighboring columns
};

struct Row {
    unsigned index;   // of the head's rows
    unsigned visible; // keys that the row sees; none if there is no such row
    float factor;     // of the row's scores, the scale of the keys aside
    Softmax softmax;
    float out[D / 32] = {}; // columns lane, lane + 32, …
};

// The score of this lane's key.
__device__ __forceinline__ float score(const float (&q)[D], const float (&k)[D + 4])
{
    float sum = 0.0f;
#pragma unroll
    for (unsigned d = 0; d < D; d += 4) {
        float4 a = *reinterpret_cast<const float4 *>(&q[d]), b = *reinterpret_cast<const float4 *>(&k[d]);
        sum = __fmaf_rn(a.x, b.x, sum);
        sum = __fmaf_rn(a.y, b.y, sum);
        sum = __fmaf_rn(a.z, b.z, sum);
        sum = __fmaf_rn(a.w, b.w, sum);
    }
    return sum;
}

// This lane's weight of its score; `alpha` is the factor of what was summed before.
__device__ __forceinline__ float soften(float score, Row &row, float &alpha, unsigned key, float k_scale)
{
    float y = key < row.visible ? __fmul_rn(score, __fmul_rn(row.factor, k_scale)) : -infinity();
    alpha = row.softmax.raise(warp_max(y));
    float p = ex2(__fsub_rn(y, row.softmax.origin()));
    row.softmax.sum = __fmaf_rn(row.softmax.sum, alpha, warp_sum(p));
    return p;
}

// out = out · alpha + P · V for this lane's columns.
__device__ __forceinline__ void accumulate(Row &row, float p, float alpha, const float (&v)[Tile::KEYS][D], unsigned lane)
{
#pragma unroll
    for (unsigned i = 0; i < D / 32; i++)
        row.out[i] = __fmul_rn(row.out[i], alpha);
#pragma unroll
    for (unsigned key = 0; key < Tile::KEYS; key++) {
        float weight = __shfl_sync(0xffffffff, p, key);
#pragma unroll
        for (unsigned i = 0; i < D / 32; i++)
            row.out[i] = __fmaf_rn(weight, v[key][lane + 32 * i], row.out[i]);
    }
}

__device__ __forceinline__ void store(const Row &row, const Work &work, unsigned lane)
{
    if (row.index >= work.rows)
        return;
    float factor = __fmul_rn(reciprocal(row.softmax.sum), work.v_scale(0));
    unsigned short *to = work.o(row.index);
#pragma unroll
    for (unsigned i = 0; i < D / 32; i++)
        to[lane + 32 * i] = cvt_f16(__fmul_rn(row.out[i], factor));
    if (LSE && lane == 0)
        work.p.lse[work.lse_index(row.index)] = log_sum(row.softmax.origin(), row.softmax.sum, 0.0f);
}

extern "C" __global__ void __launch_bounds__(Tile::THREADS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work(p, Tile::ROWS);
    if (work.first_row >= work.rows)
        return;
    const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * Tile::ROWS_OF_WARP; // of the warp's rows
    const unsigned char *k = work.k(), *v = work.v();
    s.q.load(work.first_row, work.rows, [&](unsigned r) { return work.q(r); });

    Row rows[Tile::ROWS_OF_WARP];
#pragma unroll
    for (unsigned r = 0; r < Tile::ROWS_OF_WARP; r++) {
        rows[r].index = work.first_row + first + r;
        rows[r].visible = rows[r].index < work.rows ? work.visible(rows[r].index) : 0;
        rows[r].factor = rows[r].index < work.rows ? work.q_factor(rows[r].index) : 0.0f;
    }
#pragma unroll 1
    for (unsigned key = 0; key < work.end_key(); key += Tile::KEYS) {
        __syncthreads(); // the last tile is used up
        s.k.load(key, work.keys, [&](unsigned r) { return k + r * p.k.row_stride; });
        s.v.load(key, work.keys, [&](unsigned r) { return v + r * p.v.row_stride; });
        float k_scale = work.k_scale(key);
        __syncthreads();

#pragma unroll
        for (unsigned r = 0; r < Tile::ROWS_OF_WARP; r++) {
            float alpha, a = score(s.q.values[first + r], s.k.values[lane]);
            float weight = soften(a, rows[r], alpha, key + lane, k_scale);
            accumulate(rows[r], weight, alpha, s.v.values, lane);
        }
    }
#pragma unroll
    for (unsigned r = 0; r < Tile::ROWS_OF_WARP; r++)
        store(rows[r], work, lane);
}
