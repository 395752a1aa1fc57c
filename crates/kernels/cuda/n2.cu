// n2-mma-f16: both products on the tensor cores, in f16.
//
// The one change from n1: codes are decoded to f16, which is exact, and multiplied by `mma.m16n8k16`. Fragments are read and
// written element by element as the instruction wants them (fragment.cuh); scores and weights pass through shared memory
// between the products, each warp's own 16 rows.
//
// A block takes 64 rows of one head, 16 for each warp, and walks over the keys, 64 at a time.
#include "accumulator.cuh"

constexpr unsigned D = HEAD_DIM;

struct Tile {
    static constexpr unsigned ROWS = 64, KEYS = 64, WARPS = ROWS / 16, THREADS = WARPS * 32;
    // Eight elements more for each row: the eight rows and four pairs of f16 that a warp reads at once lie in different banks.
    static constexpr unsigned PAD = 8;
    static_assert(D == 64, "with 128, what is shared would be more than 48 KB");
    static_assert(!SPLIT, "a block takes all keys of its rows");
};

template <unsigned ROWS> struct __align__(16) HalfTile { // [ROWS][D] f16
    unsigned short values[ROWS][D + Tile::PAD];

    template <class RowOf> __device__ __forceinline__ void load(unsigned first, unsigned end, RowOf row_of)
    {
        load_rows<ROWS, D, Tile::THREADS, uint2>(first, end, row_of, [&](unsigned row, unsigned piece, uint2 codes) {
            *reinterpret_cast<uint4 *>(&values[row][piece * 8]) = dequantize(codes);
        });
    }
};

union __align__(16) Exchange { // a warp's 16 rows × KEYS, first the scores, then the weights in their place
    float scores[16][Tile::KEYS + Tile::PAD];
    unsigned short weights[16][Tile::KEYS + Tile::PAD];
};

struct SharedStorage {
    HalfTile<Tile::ROWS> q;
    HalfTile<Tile::KEYS> k, v;
    Exchange exchange[Tile::WARPS];
};

using Scores = float[Tile::KEYS / 8][4]; // 16 rows × 64 keys
using Output = float[D / 8][4];          // 16 rows × D

// Two neighboring elements of a row.
__device__ __forceinline__ unsigned pair(const unsigned short *first) { return *reinterpret_cast<const unsigned *>(first); }

// 16 rows × 16 columns from column `col` on, as A operand.
template <unsigned PITCH>
__device__ __forceinline__ void load_a(unsigned (&a)[4], const unsigned short (*rows)[PITCH], unsigned col, const Lane &lane)
{
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        a[i] = pair(&rows[lane.g + i % 2 * 8][col + i / 2 * 8 + 2 * lane.t]);
}

// scores = Q · Kᵀ, to shared memory.
__device__ __forceinline__ void score(Exchange &exchange, SharedStorage &s, const Lane &lane)
{
#pragma unroll
    for (unsigned n = 0; n < Tile::KEYS / 8; n++) {
        float c[4] = {};
#pragma unroll
        for (unsigned d = 0; d < D; d += 16) {
            unsigned q[4];
            load_a(q, &s.q.values[threadIdx.x / 32 * 16], d, lane);
            const unsigned short *k = &s.k.values[n * 8 + lane.g][d + 2 * lane.t];
            mma_m16n8k16_f16(c, q, pair(k), pair(k + 8));
        }
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            exchange.scores[lane.row(i)][n * 8 + lane.col(i)] = c[i];
    }
}

// Scores in shared memory become weights in shared memory.
__device__ __forceinline__ void soften(Exchange &exchange, WarpRows &rows, unsigned first, const Work &work, const Lane &lane)
{
    Scores p;
#pragma unroll
    for (unsigned n = 0; n < Tile::KEYS / 8; n++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            p[n][i] = exchange.scores[lane.row(i)][n * 8 + lane.col(i)];
    float k_scale = work.k_scale(first);
    soften<0>(p, rows, first, lane, [&](unsigned) { return k_scale; });
    __syncwarp(); // all have read: weights take the scores' place
#pragma unroll
    for (unsigned n = 0; n < Tile::KEYS / 8; n++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            exchange.weights[lane.row(i)][n * 8 + lane.col(i)] = cvt_f16(p[n][i]);
}

// out = out · alpha + P · V.
__device__ __forceinline__ void accumulate(Output &out, const Exchange &exchange, const WarpRows &rows, SharedStorage &s,
                                           const Lane &lane)
{
#pragma unroll
    for (unsigned n = 0; n < D / 8; n++) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            out[n][i] = __fmul_rn(out[n][i], rows.alpha[i / 2]);
#pragma unroll
        for (unsigned key = 0; key < Tile::KEYS; key += 16) {
            unsigned weights[4], v[2];
            load_a(weights, exchange.weights, key, lane);
#pragma unroll
            for (unsigned i = 0; i < 2; i++) { // a column of V: two keys are not neighbors
                unsigned from = key + i * 8 + 2 * lane.t, col = n * 8 + lane.g;
                v[i] = s.v.values[from][col] | s.v.values[from + 1][col] << 16;
            }
            mma_m16n8k16_f16(out[n], weights, v[0], v[1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(Tile::THREADS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work(p, Tile::ROWS);
    if (work.first_row >= work.rows)
        return;
    const Lane lane;
    const unsigned char *k = work.k(), *v = work.v();
    Exchange &exchange = s.exchange[threadIdx.x / 32];
    s.q.load(work.first_row, work.rows, [&](unsigned r) { return work.q(r); });

    Output out = {};
    WarpRows rows(work, lane);
#pragma unroll 1
    for (unsigned key = 0; key < work.end_key(); key += Tile::KEYS) {
        __syncthreads(); // the last tile is used up
        s.k.load(key, work.keys, [&](unsigned r) { return k + r * p.k.row_stride; });
        s.v.load(key, work.keys, [&](unsigned r) { return v + r * p.v.row_stride; });
        __syncthreads();

        score(exchange, s, lane);
        __syncwarp(); // nothing but this keeps the compiler from seeing that a lane reads its own scores back: see n3
        soften(exchange, rows, key, work, lane);
        __syncwarp(); // weights are other lanes' too
        accumulate(out, exchange, rows, s, lane);
    }
    store_f16(out, rows, work, lane);
}
