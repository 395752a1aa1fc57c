// n4-mma-fp8: both products on the tensor cores in FP8.
//
// The one change from n3: codes go to `mma.m16n8k32` as they are. K is the B operand of Q·Kᵀ by plain ldmatrix, V that of
// P·V by ldmatrix.trans and prmt, P is packed to e4m3 in registers (the layouts are in fragment.cuh). The tensor core keeps
// 13 fraction bits of its sums, so the sums of a tile of keys are added in true f32 outside of it (USE_TWO_LEVEL).
//
// A block takes QUERY_TILE rows of one head, 16 for each warp, and walks over the keys, KEY_TILE at a time.
#include "accumulator.cuh"
#include "merge.cuh"
#include "quantized.cuh"

#ifndef QUERY_TILE
#define QUERY_TILE 64
#endif
#ifndef KEY_TILE // keys of a step
#define KEY_TILE 64
#endif
#ifndef USE_TWO_LEVEL // the sums of a tile are added in f32, not in the tensor core
#define USE_TWO_LEVEL 1
#endif

constexpr bool K_ROW_SCALES = K_SCALES == 2;

struct Tile {
    static constexpr unsigned ROWS = QUERY_TILE, KEYS = KEY_TILE, THREADS = ROWS / 16 * 32;
    // Blocks of an SM, where the compiler left to itself aims at one more and spills a register for it; 0: as it likes.
    static constexpr unsigned BLOCKS = K_ROW_SCALES || V_SCALES == 2 ? (D == 64 ? 384 : 256) / THREADS : 0;
    static_assert(KEYS == 64 || KEYS == 32, "a scale of 64 keys is that of a step or of two");
    static_assert(ROWS % 16 == 0 && ROWS >= 16, "16 rows for each warp");
    static_assert(USE_TWO_LEVEL || V_SCALES == 0, "a tile's own scale needs a sum of its own");
};

template <unsigned ROWS> struct CodeTile : SwizzledTile<ROWS, D> { // [ROWS][D] codes
    template <class RowOf> __device__ __forceinline__ void load(unsigned first, unsigned end, RowOf row_of)
    {
        load_rows<ROWS, D, Tile::THREADS, uint4>(first, end, row_of, [&](unsigned row, unsigned piece, uint4 codes) {
            *this->chunk(row, piece) = codes;
        });
    }
};

struct SharedStorage {
    CodeTile<Tile::ROWS> q;
    CodeTile<Tile::KEYS> k, v;
    float k_scale[K_ROW_SCALES ? Tile::KEYS : 1];
    float v_ratio[V_SCALES == 2 ? Tile::KEYS : 1]; // a key's scale as a part of the largest in the tile
    float v_tile;                                  // the largest
};

using Scores = float[Tile::KEYS / 8][4]; // 16 rows × the keys of a step
using Output = float[D / 16][2][4];      // 16 rows × D, of each 16 columns the even and the odd ones
using Queries = unsigned[D / 32][4];     // 16 rows × D as A operands

// Scales of a tile of keys: those of the keys, and how V's are split into one for the tile and a ratio for each key.
__device__ __forceinline__ void load_scales(SharedStorage &s, const Work &work, unsigned first)
{
    if (K_ROW_SCALES)
        for (unsigned i = threadIdx.x; i < Tile::KEYS; i += Tile::THREADS)
            s.k_scale[i] = first + i < work.keys ? work.k_scale(first + i) : 0.0f;
    if (V_SCALES == 1 && threadIdx.x == 0)
        s.v_tile = work.v_scale(first);
    if (V_SCALES == 2 && threadIdx.x < 32) { // two keys for each lane of the first warp
        unsigned i = threadIdx.x;
        float low = first + i < work.keys ? work.v_scale(first + i) : 0.0f;
        float high = Tile::KEYS == 64 && first + i + 32 < work.keys ? work.v_scale(first + i + 32) : 0.0f;
        float largest = warp_max(fmaxf(low, high));
        s.v_ratio[i] = __fdiv_rn(low, largest);
        if (Tile::KEYS == 64)
            s.v_ratio[i + 32] = __fdiv_rn(high, largest);
        if (i == 0)
            s.v_tile = largest;
    }
}

// P as A operands of 32 keys each: a register is four neighboring keys of the order that V is read in.
__device__ __forceinline__ void pack(unsigned (&weights)[Tile::KEYS / 32][4], Scores &p, const SharedStorage &s,
                                     const Lane &lane)
{
    if (V_SCALES == 2)
#pragma unroll
        for (unsigned i = 0; i < Tile::KEYS / 2; i++)
            p[i / 4][i % 4] = __fmul_rn(p[i / 4][i % 4], s.v_ratio[i / 4 * 8 + lane.col(i)]);
#pragma unroll
    for (unsigned i = 0; i < Tile::KEYS / 8; i++) {
        const float *low = &p[i / 2 * 2][i % 2 * 2], *high = &p[i / 2 * 2 + 1][i % 2 * 2]; // row g or g + 8, 16 keys
        weights[i / 4][i % 4] = cvt_e4m3x2(low[0], low[1]) | cvt_e4m3x2(high[0], high[1]) << 16;
    }
}

// out = out · alpha + P · V.
__device__ __forceinline__ void accumulate(Output &out, Scores &p, const WarpRows &rows, SharedStorage &s, const Lane &lane)
{
    unsigned weights[Tile::KEYS / 32][4];
    pack(weights, p, s, lane);
#pragma unroll
    for (unsigned c = 0; c < D / 16; c++) {
        float tile[2][4];
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            tile[i / 4][i % 4] = USE_TWO_LEVEL ? 0.0f : __fmul_rn(out[c][i / 4][i % 4], rows.alpha[i % 4 / 2]);
#pragma unroll
        for (unsigned group = 0; group < Tile::KEYS / 32; group++) {
            unsigned v[4];
            ldmatrix_x4_trans(v, s.v.address(lane.lane, c, group * 32));
            mma_m16n8k32_fp8<Fp8::E4M3, INPUT>(tile[0], weights[group], prmt<0x6420>(v[0], v[1]), prmt<0x6420>(v[2], v[3]));
            mma_m16n8k32_fp8<Fp8::E4M3, INPUT>(tile[1], weights[group], prmt<0x7531>(v[0], v[1]), prmt<0x7531>(v[2], v[3]));
        }
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            float &o = out[c][i / 4][i % 4], sum = tile[i / 4][i % 4], alpha = rows.alpha[i % 4 / 2];
            if (V_SCALES)
                o = __fmaf_rn(sum, s.v_tile, __fmul_rn(o, alpha));
            else
                o = USE_TWO_LEVEL ? __fmaf_rn(o, alpha, sum) : sum;
        }
        if (D > 128)
            __syncwarp();
    }
}

// Four neighboring columns of each 16 for this lane: 4t … 4t+3.
__device__ __forceinline__ void store(const Output &out, const WarpRows &rows, const Work &work, const Lane &lane)
{
    store_rows<P_SHIFT>(rows, work, lane, V_SCALES ? 1.0f : work.v_scale(0), [&](unsigned h, float factor) {
        unsigned short *to = work.o(rows.index[h]) + 4 * lane.t;
#pragma unroll
        for (unsigned c = 0; c < D / 16; c++) {
            const float *even = &out[c][0][2 * h], *odd = &out[c][1][2 * h];
            *reinterpret_cast<uint2 *>(to + c * 16) =
                make_uint2(cvt_f16x2(__fmul_rn(even[0], factor), __fmul_rn(odd[0], factor)),
                           cvt_f16x2(__fmul_rn(even[1], factor), __fmul_rn(odd[1], factor)));
        }
    });
}

// The sums as they are, for `merge`.
__device__ __forceinline__ void store_partial(const Output &out, const WarpRows &rows, const Work &work, const Lane &lane)
{
    const Params &p = work.p;
    float *stats = p.partial + (unsigned long long)p.splits * p.batches * p.heads * p.queries * D;
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        float sum = quad_sum(rows.softmax[h].sum);
        if (rows.index[h] >= work.rows)
            continue;
        unsigned long long index = work.partial_index(rows.index[h]);
        float *to = p.partial + index * D + 4 * lane.t;
#pragma unroll
        for (unsigned c = 0; c < D / 16; c++)
            *reinterpret_cast<float4 *>(to + c * 16) =
                make_float4(out[c][0][2 * h], out[c][1][2 * h], out[c][0][2 * h + 1], out[c][1][2 * h + 1]);
        if (lane.t == 0)
            *reinterpret_cast<float2 *>(stats + index * 2) = make_float2(rows.softmax[h].maximum, sum);
    }
}

extern "C" __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work(p, Tile::ROWS);
    if (work.first_row >= work.rows)
        return;
    const Lane lane;
    const unsigned char *k = work.k(), *v = work.v();
    s.q.load(work.first_row, work.rows, [&](unsigned r) { return work.q(r); });
    __syncthreads();
    // Long rows stay in shared memory: their sums take the registers.
    constexpr bool KEEP = D <= 128;
    Queries q;
    if constexpr (KEEP)
        load_queries(q, s.q, lane);

    Output out = {};
    WarpRows rows(work, lane);
    const unsigned first_key = SPLIT ? work.split * p.tiles_per_split * Tile::KEYS : 0;
    const unsigned end_key = SPLIT ? min(work.end_key(), first_key + p.tiles_per_split * Tile::KEYS) : work.end_key();
#pragma unroll 1
    for (unsigned key = first_key; key < end_key; key += Tile::KEYS) {
        __syncthreads(); // the last tile is used up
        s.k.load(key, work.keys, [&](unsigned r) { return k + r * p.k.row_stride; });
        s.v.load(key, work.keys, [&](unsigned r) { return v + r * p.v.row_stride; });
        load_scales(s, work, key);
        float k_scale = K_ROW_SCALES ? 0.0f : work.k_scale(key);
        __syncthreads();

        Scores scores;
        if constexpr (KEEP)
            score<mma_m16n8k32_fp8<INPUT, INPUT>>(scores, q, s.k, lane);
        else
            score<mma_m16n8k32_fp8<INPUT, INPUT>>(scores, s.q, s.k, lane);
        if (!KEEP)
            __syncwarp();
        soften<P_SHIFT>(scores, rows, key, lane, [&](unsigned i) { return K_ROW_SCALES ? s.k_scale[i] : k_scale; });
        accumulate(out, scores, rows, s, lane);
    }
    if (SPLIT)
        store_partial(out, rows, work, lane);
    else
        store(out, rows, work, lane);
}

#if SPLIT
__device__ __forceinline__ float normal(float sum, float scale) { return __fmul_rn(reciprocal(sum), scale); }

extern "C" __global__ void __launch_bounds__(32) merge(const __grid_constant__ Params p)
{
    merge_row<ex2, normal, P_SHIFT, V_SCALES != 0>(p);
}
#endif
