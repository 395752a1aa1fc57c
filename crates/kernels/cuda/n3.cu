// n3-register-p: scores and weights never leave the registers.
//
// The one change from n2: fragments come and go whole. Accumulators of Q·Kᵀ, rounded to f16, are the A operand of P·V as they
// lie (fragment.cuh); Q, K and V are read by ldmatrix, V transposed on the way, from rows swizzled so that no bank is asked
// twice. The arithmetic is n2's to the bit.
//
// A block takes 64 rows of one head, 16 for each warp, and walks over the keys, 64 at a time.
#include "accumulator.cuh"

constexpr unsigned D = HEAD_DIM;

struct Tile {
    static constexpr unsigned ROWS = 64, KEYS = 64, THREADS = ROWS / 16 * 32;
    static_assert(D == 64 || D == 128, "rows of 128 or 256 bytes");
    static_assert(!SPLIT, "a block takes all keys of its rows");
};

template <unsigned ROWS> struct HalfTile : SwizzledTile<ROWS, D * 2> { // [ROWS][D] f16
    template <class RowOf> __device__ __forceinline__ void load(unsigned first, unsigned end, RowOf row_of)
    {
        load_rows<ROWS, D, Tile::THREADS, uint2>(first, end, row_of, [&](unsigned row, unsigned piece, uint2 codes) {
            *this->chunk(row, piece) = dequantize(codes);
        });
    }
};

struct SharedStorage {
    HalfTile<Tile::ROWS> q;
    HalfTile<Tile::KEYS> k, v;
};

using Scores = float[Tile::KEYS / 8][4]; // 16 rows × 64 keys
using Output = float[D / 8][4];          // 16 rows × D
using Queries = unsigned[D / 16][4];     // 16 rows × D as A operands

// out = out · alpha + P · V.
__device__ __forceinline__ void accumulate(Output &out, const Scores &p, const WarpRows &rows, SharedStorage &s,
                                           const Lane &lane)
{
    unsigned weights[Tile::KEYS / 16][4]; // 16 rows × 16 keys as A operand
#pragma unroll
    for (unsigned i = 0; i < Tile::KEYS / 4; i++)
        weights[i / 4][i % 4] = cvt_f16x2(p[i / 2][i % 2 * 2], p[i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (unsigned c = 0; c < D / 8; c++) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            out[c][i] = __fmul_rn(out[c][i], rows.alpha[i / 2]);
#pragma unroll
        for (unsigned step = 0; step < Tile::KEYS / 16; step += 2) {
            unsigned v[4];
            ldmatrix_x4_trans(v, s.v.address(lane.lane, c, step * 16));
            mma_m16n8k16_f16(out[c], weights[step], v[0], v[1]);
            mma_m16n8k16_f16(out[c], weights[step + 1], v[2], v[3]);
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
    s.q.load(work.first_row, work.rows, [&](unsigned r) { return work.q(r); });
    __syncthreads();
    Queries q;
    load_queries(q, s.q, lane);

    Output out = {};
    WarpRows rows(work, lane);
#pragma unroll 1
    for (unsigned key = 0; key < work.end_key(); key += Tile::KEYS) {
        __syncthreads(); // the last tile is used up
        s.k.load(key, work.keys, [&](unsigned r) { return k + r * p.k.row_stride; });
        s.v.load(key, work.keys, [&](unsigned r) { return v + r * p.v.row_stride; });
        float k_scale = work.k_scale(key);
        __syncthreads();

        Scores scores;
        score<mma_m16n8k16_f16>(scores, q, s.k, lane);
        soften<0>(scores, rows, key, lane, [&](unsigned) { return k_scale; });
        accumulate(out, scores, rows, s, lane);
    }
    store_f16(out, rows, work, lane);
}
