// n4-mma-fp8: both products on the tensor cores in FP8.
//
// The one change from n3: codes go to `mma.m16n8k32` as they are. K is the B operand of Q·Kᵀ by plain ldmatrix, V that of
// P·V by ldmatrix.trans and prmt, P is packed to e4m3 in registers (the layouts are in fragment.cuh). The tensor core keeps
// 13 fraction bits of its sums, so the sums of a tile of keys are added in true f32 outside of it (USE_TWO_LEVEL).
//
// A block takes QUERY_TILE rows of one head, 16 for each warp, and walks over the keys, 64 at a time.
#include "fragment.cuh"
#include "ptx.cuh"
#include "softmax.cuh"
#include "work.cuh"

#ifndef HEAD_DIM // elements of a row
#define HEAD_DIM 64
#endif
#ifndef QUERY_TILE
#define QUERY_TILE 64
#endif
#ifndef FORMAT_E5M2 // Q, K and V are e5m2 instead of e4m3; P is always e4m3
#define FORMAT_E5M2 0
#endif
#ifndef K_ROW_SCALES // a scale for each key, else one for each tile of 64 keys
#define K_ROW_SCALES 0
#endif
#ifndef V_SCALES // 0: one for the head; 1: one for each tile of 64 keys; 2: one for each key
#define V_SCALES 0
#endif
#ifndef LSE // also write the log-sum-exp of each row
#define LSE 0
#endif
#ifndef USE_SMEM_SWIZZLE_XOR
#define USE_SMEM_SWIZZLE_XOR 1
#endif
#ifndef USE_TWO_LEVEL
#define USE_TWO_LEVEL 1
#endif

constexpr unsigned D = HEAD_DIM;
constexpr Fp8 INPUT = FORMAT_E5M2 ? Fp8::E5M2 : Fp8::E4M3;
// P is 2^8 times the weight: the most that is below e4m3's 448, and so the fewest that underflow. It leaves with the sum.
constexpr float P_SHIFT = 8.0f;

struct Tile {
    static constexpr unsigned ROWS = QUERY_TILE, KEYS = 64;
    static constexpr unsigned THREADS = ROWS / 16 * 32;
    static constexpr unsigned CHUNKS = D / 16; // 16-byte pieces of a row
    static_assert(D == 64 || D == 128, "rows of 64 or 128 bytes");
    static_assert(ROWS % 16 == 0 && ROWS >= 16, "16 rows for each warp");
    static_assert(USE_TWO_LEVEL || V_SCALES == 0, "a tile's own scale needs a sum of its own");

    // Where chunk c of a row lies, so that the eight rows an ldmatrix reads at a time lie in different banks.
    static __device__ __forceinline__ unsigned swizzle(unsigned row, unsigned chunk)
    {
        return !USE_SMEM_SWIZZLE_XOR ? chunk : D == 64 ? chunk ^ (row >> 1 & 3) : chunk ^ (row & 7);
    }
};

template <unsigned ROWS> struct __align__(128) CodeTile { // [ROWS][D] codes
    unsigned char bytes[ROWS][D];

    __device__ __forceinline__ void *chunk(unsigned row, unsigned chunk)
    {
        return &bytes[row][Tile::swizzle(row, chunk) * 16];
    }
    // Rows `first` to `end` of a head, zeros beyond.
    template <class Row> __device__ __forceinline__ void load(unsigned first, unsigned end, Row row_of)
    {
        for (unsigned i = threadIdx.x; i < ROWS * Tile::CHUNKS; i += Tile::THREADS) {
            unsigned row = i / Tile::CHUNKS, c = i % Tile::CHUNKS;
            uint4 codes = {};
            if (first + row < end)
                codes = *reinterpret_cast<const uint4 *>(row_of(first + row) + c * 16);
            *static_cast<uint4 *>(chunk(row, c)) = codes;
        }
    }
};

struct SharedStorage {
    CodeTile<Tile::ROWS> q;
    CodeTile<Tile::KEYS> k, v;
    float k_scale[K_ROW_SCALES ? Tile::KEYS : 1];
    float v_ratio[V_SCALES == 2 ? Tile::KEYS : 1]; // a key's scale as a part of the largest in the tile
    float v_tile;                                  // the largest
};

// Scales of a tile of keys: those of the keys, and how V's are split into one for the tile and a ratio for each key.
__device__ __forceinline__ void load_scales(SharedStorage &s, const Work &work, unsigned first)
{
    unsigned i = threadIdx.x % Tile::KEYS, lane = threadIdx.x % 32;
    if (K_ROW_SCALES && Tile::THREADS >= Tile::KEYS && threadIdx.x < Tile::KEYS)
        s.k_scale[i] = first + i < work.keys ? work.k_scale(first + i) : 0.0f;
    if (K_ROW_SCALES && Tile::THREADS < Tile::KEYS)
        for (unsigned j = threadIdx.x; j < Tile::KEYS; j += Tile::THREADS)
            s.k_scale[j] = first + j < work.keys ? work.k_scale(first + j) : 0.0f;
    if (V_SCALES == 1 && threadIdx.x == 0)
        s.v_tile = work.v_scale(first);
    if (V_SCALES == 2 && threadIdx.x < 32) {
        float low = first + lane < work.keys ? work.v_scale(first + lane) : 0.0f;
        float high = first + lane + 32 < work.keys ? work.v_scale(first + lane + 32) : 0.0f;
        float largest = warp_max(fmaxf(low, high));
        s.v_ratio[lane] = __fdiv_rn(low, largest);
        s.v_ratio[lane + 32] = __fdiv_rn(high, largest);
        if (lane == 0)
            s.v_tile = largest;
    }
}

using Scores = float[Tile::KEYS / 8][4];   // 16 rows × 64 keys, accumulators of eight m16n8
using Output = float[Tile::CHUNKS][2][4];  // 16 rows × D, for each 16 columns the even and the odd ones
using Queries = unsigned[D / 32][4];       // 16 rows × D as A operands

__device__ __forceinline__ void load_queries(Queries &q, SharedStorage &s, unsigned first, const Lane &lane)
{
#pragma unroll
    for (unsigned i = 0; i < D / 32; i++)
        ldmatrix_x4(q[i], s.q.chunk(first + lane.lane % 16, 2 * i + lane.lane / 16));
}

// scores = Q · Kᵀ on the codes.
__device__ __forceinline__ void score(Scores &scores, const Queries &q, SharedStorage &s, const Lane &lane)
{
#pragma unroll
    for (unsigned n = 0; n < Tile::KEYS / 8; n++) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            scores[n][i] = 0.0f;
#pragma unroll
        for (unsigned c = 0; c < Tile::CHUNKS; c += 4) {
            unsigned k[4];
            ldmatrix_x4(k, s.k.chunk(n * 8 + lane.lane % 8, c + lane.lane / 8));
            mma_m16n8k32_fp8<INPUT, INPUT>(scores[n], q[c / 2], k[0], k[1]);
            mma_m16n8k32_fp8<INPUT, INPUT>(scores[n], q[c / 2 + 1], k[2], k[3]);
        }
    }
}

// Scores become weights (times 2^8), rows h = 0 and 1 of this lane; `alpha` is the factor of what was summed before.
__device__ __forceinline__ void soften(Scores &scores, Softmax (&rows)[2], float (&alpha)[2], const float (&q_factor)[2],
                                       const unsigned (&visible)[2], SharedStorage &s, const Work &work, unsigned first,
                                       const Lane &lane)
{
    float k_scale = K_ROW_SCALES ? 0.0f : work.k_scale(first);
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        float factor = __fmul_rn(q_factor[h], k_scale), maximum = -infinity();
#pragma unroll
        for (unsigned i = 0; i < Tile::KEYS / 4; i++) {
            float &y = scores[i / 2][2 * h + i % 2];
            unsigned key = i / 2 * 8 + lane.col(i % 2);
            if (K_ROW_SCALES)
                factor = __fmul_rn(q_factor[h], s.k_scale[key]);
            y = first + key < visible[h] ? __fmul_rn(y, factor) : -infinity();
            maximum = fmaxf(maximum, y);
        }
        alpha[h] = rows[h].raise(quad_max(maximum));
        float origin = __fsub_rn(rows[h].origin(), P_SHIFT), sum = 0.0f;
#pragma unroll
        for (unsigned i = 0; i < Tile::KEYS / 4; i++) {
            float &p = scores[i / 2][2 * h + i % 2];
            p = ex2(__fsub_rn(p, origin));
            sum = __fadd_rn(sum, p);
            if (V_SCALES == 2)
                p = __fmul_rn(p, s.v_ratio[i / 2 * 8 + lane.col(i % 2)]);
        }
        rows[h].sum = __fmaf_rn(rows[h].sum, alpha[h], sum);
    }
}

// out = out · alpha + P · V.
__device__ __forceinline__ void accumulate(Output &out, const Scores &p, const float (&alpha)[2], SharedStorage &s,
                                           const Lane &lane)
{
    unsigned weights[Tile::KEYS / 32][4]; // 16 rows × 32 keys as A operand
#pragma unroll
    for (unsigned i = 0; i < Tile::KEYS / 8; i++) {
        const float *low = &p[i / 4 * 4 + i % 4 / 2 * 2][i % 2 * 2], *high = &p[i / 4 * 4 + i % 4 / 2 * 2 + 1][i % 2 * 2];
        weights[i / 4][i % 4] = cvt_e4m3x2(low[0], low[1]) | cvt_e4m3x2(high[0], high[1]) << 16;
    }
#pragma unroll
    for (unsigned c = 0; c < Tile::CHUNKS; c++) {
        float tile[2][4];
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            tile[i / 4][i % 4] = USE_TWO_LEVEL ? 0.0f : __fmul_rn(out[c][i / 4][i % 4], alpha[i % 4 / 2]);
#pragma unroll
        for (unsigned group = 0; group < Tile::KEYS / 32; group++) {
            unsigned v[4];
            ldmatrix_x4_trans(v, s.v.chunk(group * 32 + lane.lane, c));
            mma_m16n8k32_fp8<Fp8::E4M3, INPUT>(tile[0], weights[group], prmt<0x6420>(v[0], v[1]), prmt<0x6420>(v[2], v[3]));
            mma_m16n8k32_fp8<Fp8::E4M3, INPUT>(tile[1], weights[group], prmt<0x7531>(v[0], v[1]), prmt<0x7531>(v[2], v[3]));
        }
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            float &o = out[c][i / 4][i % 4], sum = tile[i / 4][i % 4];
            if (V_SCALES)
                o = __fmaf_rn(sum, s.v_tile, __fmul_rn(o, alpha[i % 4 / 2]));
            else
                o = USE_TWO_LEVEL ? __fmaf_rn(o, alpha[i % 4 / 2], sum) : sum;
        }
    }
}

// Four neighbouring columns of row h for each 16: 4t … 4t+3.
__device__ __forceinline__ void store_row(const Output &out, unsigned h, const Softmax &row, unsigned r, const Work &work,
                                          const Lane &lane)
{
    float sum = quad_sum(row.sum);
    if (r >= work.rows)
        return;
    if (SPLIT) {
        unsigned long long index = work.partial_index(r);
        float *to = work.p.partial + index * D + 4 * lane.t;
#pragma unroll
        for (unsigned c = 0; c < Tile::CHUNKS; c++)
            *reinterpret_cast<float4 *>(to + c * 16) = make_float4(out[c][0][2 * h], out[c][1][2 * h], out[c][0][2 * h + 1],
                                                                  out[c][1][2 * h + 1]);
        unsigned long long all = (unsigned long long)work.p.splits * work.p.batches * work.p.heads * work.p.queries;
        if (lane.t == 0)
            *reinterpret_cast<float2 *>(work.p.partial + all * D + index * 2) = make_float2(row.maximum, sum);
        return;
    }
    float factor = __fmul_rn(reciprocal(sum), V_SCALES ? 1.0f : work.v_scale(0));
    unsigned short *to = work.o(r) + 4 * lane.t;
#pragma unroll
    for (unsigned c = 0; c < Tile::CHUNKS; c++) {
        const float *even = &out[c][0][2 * h], *odd = &out[c][1][2 * h];
        *reinterpret_cast<uint2 *>(to + c * 16) =
            make_uint2(cvt_f16x2(__fmul_rn(even[0], factor), __fmul_rn(odd[0], factor)),
                       cvt_f16x2(__fmul_rn(even[1], factor), __fmul_rn(odd[1], factor)));
    }
    if (LSE && lane.t == 0)
        work.p.lse[work.lse_index(r)] = log_sum(row.origin(), sum, P_SHIFT);
}

extern "C" __global__ void __launch_bounds__(Tile::THREADS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work(p, Tile::ROWS);
    if (work.first_row >= work.rows)
        return;
    const Lane lane;
    const unsigned first = threadIdx.x / 32 * 16, row[2] = {work.first_row + first + lane.g, work.first_row + first + lane.g + 8};

    s.q.load(work.first_row, work.rows, [&](unsigned r) { return work.q(r); });
    __syncthreads();
    Queries q;
    load_queries(q, s, first, lane);

    Output out = {};
    Softmax rows[2];
    float q_factor[2];
    unsigned visible[2];
#pragma unroll
    for (unsigned h = 0; h < 2; h++) { // rows beyond the last see no key
        q_factor[h] = row[h] < work.rows ? __fmul_rn(p.factor, work.q_scale(row[h])) : 0.0f;
        visible[h] = row[h] < work.rows ? work.visible(row[h]) : 0;
    }
    const unsigned end = work.visible(min(work.first_row + Tile::ROWS, work.rows) - 1);
    const unsigned first_key = SPLIT ? work.split * p.tiles_per_split * Tile::KEYS : 0;
    const unsigned end_key = SPLIT ? min(end, first_key + p.tiles_per_split * Tile::KEYS) : end;
    const unsigned char *k = work.k(), *v = work.v();

#pragma unroll 1
    for (unsigned key = first_key; key < end_key; key += Tile::KEYS) {
        __syncthreads(); // the last tile is used up
        s.k.load(key, work.keys, [&](unsigned r) { return k + r * p.k.row_stride; });
        s.v.load(key, work.keys, [&](unsigned r) { return v + r * p.v.row_stride; });
        load_scales(s, work, key);
        __syncthreads();

        Scores scores;
        float alpha[2];
        score(scores, q, s, lane);
        soften(scores, rows, alpha, q_factor, visible, s, work, key, lane);
        accumulate(out, scores, alpha, s, lane);
    }
#pragma unroll
    for (unsigned h = 0; h < 2; h++)
        store_row(out, h, rows[h], row[h], work, lane);
}

#if SPLIT
// Puts the sums of the splits together: a warp for each row, a lane for each 32nd column.
extern "C" __global__ void __launch_bounds__(32) merge(const __grid_constant__ Params p)
{
    const unsigned query = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, lane = threadIdx.x;
    const unsigned first = VARLEN ? p.query_starts[batch] : 0;
    if (VARLEN && query >= p.query_starts[batch + 1] - first)
        return;
    const unsigned long long all = (unsigned long long)p.batches * p.heads * p.queries;
    const unsigned long long row = ((unsigned long long)batch * p.heads + head) * p.queries + query;
    const float2 *stats = reinterpret_cast<const float2 *>(p.partial + p.splits * all * D);

    Softmax whole;
    for (unsigned split = 0; split < p.splits; split++)
        whole.maximum = fmaxf(whole.maximum, stats[split * all + row].x);
    float out[D / 32] = {};
    for (unsigned split = 0; split < p.splits; split++) {
        float2 part = stats[split * all + row]; // maximum, sum
        float weight = ex2(__fsub_rn(part.x, whole.origin()));
        whole.sum = __fmaf_rn(part.y, weight, whole.sum);
#pragma unroll
        for (unsigned i = 0; i < D / 32; i++)
            out[i] = __fmaf_rn(p.partial[(split * all + row) * D + lane + 32 * i], weight, out[i]);
    }
    float factor = __fmul_rn(reciprocal(whole.sum), V_SCALES ? 1.0f : p.v.scale(batch, head / p.group, 0));
    unsigned short *o = p.o + batch * p.o_batch_stride + head * p.o_head_stride +
                        (query + first) * p.o_row_stride;
#pragma unroll
    for (unsigned i = 0; i < D / 32; i++)
        o[lane + 32 * i] = static_cast<unsigned short>(cvt_f16x2(__fmul_rn(out[i], factor), 0.0f));
    if (LSE && lane == 0)
        p.lse[(batch * p.heads + head) * p.lse_rows + query] = log_sum(whole.origin(), whole.sum, P_SHIFT);
}
#endif
