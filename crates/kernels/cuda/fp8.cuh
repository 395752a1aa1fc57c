// Attention of 16 query rows by one warp, FP8 throughout: what the rungs from n5 on share.
//
// The softmax has its scale folded into the exponent: a weight is 2^(s · f − (m − 8)), one multiply-add before ex2, where n4
// multiplies, and subtracts later. m is the largest s · f, which is the largest s times f, for rounding is monotonic and f is not
// negative. Tiles that a row does not see in whole take another way through the same arithmetic.
//
// Where scores are changed before the softmax (SHAPED), they are multiplied by f first, and the exponent is a difference.
#pragma once
#include "fragment.cuh"
#include "quantized.cuh"
#include "softmax.cuh"
#include "tile.cuh"
#include "work.cuh"

#ifndef Q_SCALES // 0: one for the head; 1: finer
#define Q_SCALES 0
#endif
#ifndef KEY_TILE // keys whose sum is made inside the tensor core
#define KEY_TILE 64
#endif

constexpr unsigned UNIT = 16; // query rows of a warp
#define SHAPED (SOFTCAP || ALIBI)       // scores are not multiples of the products
#define MASKED (CAUSAL || WINDOW_RIGHT) // rows differ in where the keys end that they see
constexpr unsigned TILE_KEYS = KEY_TILE;
static_assert(TILE_KEYS == 64 || TILE_KEYS == 32, "a scale of 64 keys is that of a tile or of two");

using KeyTile = SwizzledTile<TILE_KEYS, D>;
using QueryTile = SwizzledTile<UNIT, D>;
using Scores = float[TILE_KEYS / 8][4]; // 16 rows × the keys of a tile
using Output = float[D / 16][2][4];     // 16 rows × D, of each 16 columns the even and the odd ones
// 16 rows × D as A operands. Long rows stay in shared memory: their sums take the registers.
constexpr bool LONG_ROWS = D > 128;
template <bool LONG> struct QueriesOf {
    using Type = unsigned[D / 32][4];
};
template <> struct QueriesOf<true> {
    struct Type {
        const QueryTile *tile;
    };
};
using Queries = QueriesOf<LONG_ROWS>::Type;
using Weights = unsigned[TILE_KEYS / 32][4]; // 16 rows × the keys of a tile as A operands

// Scales of a tile's keys and values, where they are finer than the head.
struct TileScales {
    float k[K_SCALES == 2 ? TILE_KEYS : 1];
    float v_ratio[V_SCALES == 2 ? TILE_KEYS : 1]; // a key's scale as a part of the largest in the tile
    float v;                                      // the largest

    static __device__ __forceinline__ float k_scale(const Work &work, unsigned key)
    {
        return PAGED ? work.paged_scale(work.p.k, key) : work.k_scale(key);
    }
    static __device__ __forceinline__ float v_scale(const Work &work, unsigned key)
    {
        return PAGED ? work.paged_scale(work.p.v, key) : work.v_scale(key);
    }
    // By one warp.
    __device__ __forceinline__ void load(const Work &work, unsigned first, const Lane &lane)
    {
        const unsigned low = first + lane.lane, high = low + 32;
        if (K_SCALES == 1 && lane.lane == 0)
            k[0] = first < work.keys ? k_scale(work, first) : 0.0f;
        if (K_SCALES == 2) {
            k[lane.lane] = low < work.keys ? k_scale(work, low) : 0.0f;
            if (TILE_KEYS == 64)
                k[lane.lane + 32] = high < work.keys ? k_scale(work, high) : 0.0f;
        }
        if (V_SCALES == 1 && lane.lane == 0)
            v = first < work.keys ? v_scale(work, first) : 0.0f;
        if (V_SCALES == 2) {
            float a = low < work.keys ? v_scale(work, low) : 0.0f;
            float b = TILE_KEYS == 64 && high < work.keys ? v_scale(work, high) : 0.0f;
            float largest = warp_max(fmaxf(a, b));
            v_ratio[lane.lane] = __fdiv_rn(a, largest);
            if (TILE_KEYS == 64)
                v_ratio[lane.lane + 32] = __fdiv_rn(b, largest);
            if (lane.lane == 0)
                v = largest;
        }
    }
};

// A lane's two rows. Without a mask all rows see all keys, and what is said of them lies in the parameters: registers are dear.
struct UnitRows {
    const Work &work;
    unsigned first;   // of the unit
    unsigned seen[2]; // where the keys end that the row sees, with a mask
    unsigned from[2]; // where they begin, with a window
    int place[2];     // the key at the row's own place, with ALIBI
    float slope[2];
    float factor[2];  // of the row's scores, the scale of the keys aside where it is not the head's

    __device__ __forceinline__ UnitRows(const Work &work, unsigned first, const Lane &lane) : work(work), first(first)
    {
        const float k_scale = K_SCALES == 0 && work.keys > 0 ? work.k_scale(0) : 1.0f;
#pragma unroll
        for (unsigned h = 0; h < 2; h++)
            factor[h] = __fmul_rn(work.q_factor(Q_SCALES || PACK_GQA ? row(h, lane) : 0), k_scale);
        see(lane);
    }
    // Another unit of the same head: where rows share a scale, the factors stay.
    __device__ __forceinline__ UnitRows(const UnitRows &before, unsigned first, const Lane &lane) : work(before.work), first(first)
    {
        const float k_scale = Q_SCALES && K_SCALES == 0 && work.keys > 0 ? work.k_scale(0) : 1.0f;
#pragma unroll
        for (unsigned h = 0; h < 2; h++)
            factor[h] = Q_SCALES ? __fmul_rn(work.q_factor(row(h, lane)), k_scale) : before.factor[h];
        see(lane);
    }
    // Any unit, for tiles that all rows see in whole: nothing but the factor is asked for.
    __device__ __forceinline__ UnitRows(const Work &work, float factor) : work(work), first(0), factor{factor, factor} {}
    __device__ __forceinline__ void see(const Lane &lane)
    {
        if (MASKED)
#pragma unroll
            for (unsigned h = 0; h < 2; h++)
                seen[h] = work.visible(row(h, lane));
        if (WINDOW_LEFT)
#pragma unroll
            for (unsigned h = 0; h < 2; h++)
                from[h] = work.first_visible(row(h, lane));
        if (ALIBI)
#pragma unroll
            for (unsigned h = 0; h < 2; h++) {
                place[h] = work.place(row(h, lane));
                slope[h] = work.slope(row(h, lane));
            }
    }
    // Rows beyond the last are computed as the last, and not stored.
    __device__ __forceinline__ unsigned row(unsigned h, const Lane &lane) const { return min(index(h, lane), work.rows - 1); }
    __device__ __forceinline__ unsigned index(unsigned h, const Lane &lane) const { return first + lane.row(2 * h); }
    __device__ __forceinline__ unsigned visible(unsigned h) const { return MASKED ? seen[h] : work.keys; }
    // Whether every row sees every key of the tile before `end`: no row sees an earlier end than the first, and none a later beginning
    // than the last. With a negative factor the smallest score would be the largest.
    __device__ __forceinline__ bool full(unsigned end) const
    {
        if (WINDOW_LEFT && end - TILE_KEYS < work.first_visible(min(first + UNIT, work.rows) - 1))
            return false;
        return end <= (MASKED ? work.visible(first) : work.keys) && work.p.factor >= 0.0f;
    }
    // Whether any row sees a key of the tile from `key` on: none sees a later end than the last, or an earlier beginning than the first.
    __device__ __forceinline__ bool some(unsigned key) const
    {
        if (WINDOW_LEFT && key + TILE_KEYS <= work.first_visible(first))
            return false;
        return first < work.rows && key < (MASKED ? work.visible(min(first + UNIT, work.rows) - 1) : work.keys);
    }
};

// What a row's sums are multiplied by at the end; 0 for a row that saw no key.
__device__ __forceinline__ float normal(float sum, float v_scale) { return sum == 0.0f ? 0.0f : __fmul_rn(rcp_ftz(sum), v_scale); }

// cap · tanh(score / cap) in powers of two, from x = 2 log2(e) · score / cap: tanh is 1 − 2 / (1 + 2^x), to within 2^-21, where
// tanh.approx has 11 bits. Infinities end at ±cap.
__device__ __forceinline__ float soft_cap(float x, float cap)
{
    return __fmaf_rn(rcp_ftz(__fadd_rn(ex2_ftz(x), 1.0f)), -2.0f * cap, cap);
}

// What is known of the rows after some keys.
struct Partial {
    Output out = {};
    Softmax softmax[2];

    // The sink is the first key: its score is the largest so far, so its weight is 1 times 2^P_SHIFT. It has no value.
    __device__ __forceinline__ void take_sink(const UnitRows &rows, const Lane &lane)
    {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            softmax[h].maximum = rows.work.sink(rows.row(h, lane));
            softmax[h].sum = lane.t == 0 ? static_cast<float>(1 << P_SHIFT) : 0.0f;
        }
    }

    // Takes a tile of keys, up to the weights. FULL: every row sees all of them.
    template <bool FULL>
    __device__ __forceinline__ void weigh(Weights &weights, float (&alpha)[2], const Queries &q, const KeyTile &k,
                                          const TileScales &scales, const UnitRows &rows, unsigned first, const Lane &lane)
    {
        Scores s;
        score(s, q, k, lane);
        soften<FULL>(s, alpha, scales, rows, first, lane);
        pack(weights, s, scales, lane);
    }

    // s = Q · Kᵀ. Of long rows, 64 elements are read at a time.
    static __device__ __forceinline__ void score(Scores &s, const QueriesOf<true>::Type &q, const KeyTile &k, const Lane &lane)
    {
#pragma unroll
        for (unsigned i = 0; i < D / 32; i += 2) {
            unsigned a[2][4];
            ldmatrix_x4(a[0], q.tile->address(lane.lane % 16, 2 * i + lane.lane / 16));
            ldmatrix_x4(a[1], q.tile->address(lane.lane % 16, 2 * i + 2 + lane.lane / 16));
#pragma unroll
            for (unsigned n = 0; n < TILE_KEYS / 8; n++) {
                unsigned b[4];
                ldmatrix_x4(b, k.address(lane.lane % 8, 2 * i + lane.lane / 8, n * 8));
                if (i == 0)
                    mma_m16n8k32_fp8_from_zero<INPUT, INPUT>(s[n], a[0], b[0], b[1]);
                else
                    mma_m16n8k32_fp8<INPUT, INPUT>(s[n], a[0], b[0], b[1]);
                mma_m16n8k32_fp8<INPUT, INPUT>(s[n], a[1], b[2], b[3]);
                __syncwarp(); // ptxas would load more ahead than there are registers
            }
        }
    }
    static __device__ __forceinline__ void score(Scores &s, const QueriesOf<false>::Type &q, const KeyTile &k, const Lane &lane)
    {
#pragma unroll
        for (unsigned n = 0; n < TILE_KEYS / 8; n++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++)
                s[n][i] = 0.0f;
#pragma unroll
            for (unsigned i = 0; i + 1 < D / 32; i += 2) {
                unsigned b[4];
                ldmatrix_x4(b, k.address(lane.lane % 8, 2 * i + lane.lane / 8, n * 8));
                mma_m16n8k32_fp8<INPUT, INPUT>(s[n], q[i], b[0], b[1]);
                mma_m16n8k32_fp8<INPUT, INPUT>(s[n], q[i + 1], b[2], b[3]);
            }
            if constexpr (D / 32 % 2 == 1) {
                unsigned b[2];
                ldmatrix_x2(b, k.address(lane.lane % 8, D / 16 - 2 + lane.lane / 8 % 2, n * 8));
                mma_m16n8k32_fp8<INPUT, INPUT>(s[n], q[D / 32 - 1], b[0], b[1]);
            }
        }
    }

    // Scores become weights. NUMBER: the maximum begins with a number below all others, so that it is never -inf.
    template <bool FULL, bool NUMBER = false>
    __device__ __forceinline__ void soften(Scores &s, float (&alpha)[2], const TileScales &scales, const UnitRows &rows,
                                           unsigned first, const Lane &lane)
    {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            if (K_SCALES == 2)
#pragma unroll
                for (unsigned i = 0; i < TILE_KEYS / 4; i++)
                    s[i / 2][2 * h + i % 2] = __fmul_rn(s[i / 2][2 * h + i % 2], scales.k[i / 2 * 8 + lane.col(i % 2)]);
            const float scale = K_SCALES == 1 ? __fmul_rn(rows.factor[h], scales.k[0]) : rows.factor[h];
            // Distances are below 2^24, so sums of them are exact.
            const float apart = ALIBI ? __int2float_rn(static_cast<int>(first + lane.col(0)) - rows.place[h]) : 0.0f;
            if (SHAPED)
#pragma unroll
                for (unsigned i = 0; i < TILE_KEYS / 4; i++) {
                    float &x = s[i / 2][2 * h + i % 2];
                    x = __fmul_rn(x, scale);
                    if (SOFTCAP)
                        x = soft_cap(x, rows.work.p.cap);
                    if (ALIBI)
                        x = __fmaf_rn(fabsf(__fadd_rn(apart, static_cast<float>(i / 2 * 8 + i % 2))), -rows.slope[h], x);
                }
            const float factor = SHAPED ? 1.0f : scale;
            const int left = static_cast<int>(rows.visible(h) - first - lane.col(0)); // one register, whatever the key
            const int out = WINDOW_LEFT ? static_cast<int>(rows.from[h] - first - lane.col(0)) : 0;
            auto seen = [&](unsigned i) {
                const int key = static_cast<int>(i / 2 * 8 + i % 2);
                return FULL || (key < left && (!WINDOW_LEFT || key >= out));
            };
            float pair[2] = {-infinity(), -infinity()}; // two chains are half as long
#pragma unroll
            for (unsigned i = 0; i < TILE_KEYS / 4; i++) {
                const float x = s[i / 2][2 * h + i % 2];
                pair[i % 2] = fmaxf(pair[i % 2], FULL ? x : seen(i) ? __fmul_rn(x, factor) : -infinity());
            }
            const float maximum = quad_max(fmaxf(pair[0], pair[1]));
            const float before = softmax[h].maximum;
            softmax[h].maximum = fmaxf(before, FULL ? __fmul_rn(maximum, factor) : maximum);
            const float largest = NUMBER ? softmax[h].maximum : softmax[h].origin();
            alpha[h] = ex2_ftz(__fsub_rn(before, largest));
            const float origin = __fsub_rn(largest, P_SHIFT);
            float sum = 0.0f;
#pragma unroll
            for (unsigned i = 0; i < TILE_KEYS / 4; i++) {
                float &p = s[i / 2][2 * h + i % 2];
                p = ex2_ftz(seen(i) ? __fmaf_rn(p, factor, -origin) : -infinity());
                sum = __fadd_rn(sum, p);
            }
            softmax[h].sum = __fmaf_rn(softmax[h].sum, alpha[h], sum);
        }
    }

    // P as A operands of 32 keys each: a register is four neighboring keys of the order that V is read in.
    static __device__ __forceinline__ void pack(Weights &weights, Scores &p, const TileScales &scales,
                                                const Lane &lane)
    {
        if (V_SCALES == 2)
#pragma unroll
            for (unsigned i = 0; i < TILE_KEYS / 2; i++)
                p[i / 4][i % 4] = __fmul_rn(p[i / 4][i % 4], scales.v_ratio[i / 4 * 8 + lane.col(i)]);
#pragma unroll
        for (unsigned i = 0; i < TILE_KEYS / 8; i++) {
            const float *low = &p[i / 2 * 2][i % 2 * 2], *high = &p[i / 2 * 2 + 1][i % 2 * 2]; // row g or g + 8, 16 keys
            weights[i / 4][i % 4] = cvt_e4m3x2(low[0], low[1]) | cvt_e4m3x2(high[0], high[1]) << 16;
        }
    }

    // out = out · alpha + P · V; the sum of the tile is made in the tensor core, which keeps 13 bits, and added in f32.
    __device__ __forceinline__ void accumulate(const Weights &weights, const float (&alpha)[2],
                                               const KeyTile &v, const TileScales &scales, const Lane &lane)
    {
#pragma unroll
        for (unsigned c = 0; c < D / 16; c++) {
            float tile[2][4] = {};
#pragma unroll
            for (unsigned group = 0; group < TILE_KEYS / 32; group++) {
                unsigned x[4];
                ldmatrix_x4_trans(x, v.address(lane.lane, c, group * 32));
                mma_m16n8k32_fp8<Fp8::E4M3, INPUT>(tile[0], weights[group], prmt<0x6420>(x[0], x[1]), prmt<0x6420>(x[2], x[3]));
                mma_m16n8k32_fp8<Fp8::E4M3, INPUT>(tile[1], weights[group], prmt<0x7531>(x[0], x[1]), prmt<0x7531>(x[2], x[3]));
            }
            add(c, tile, alpha, scales);
            if (LONG_ROWS)
                __syncwarp();
        }
    }

    __device__ __forceinline__ void add(unsigned c, const float (&tile)[2][4], const float (&alpha)[2], const TileScales &scales)
    {
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            float &o = out[c][i / 4][i % 4], sum = tile[i / 4][i % 4];
            if (V_SCALES)
                o = __fmaf_rn(sum, scales.v, __fmul_rn(o, alpha[i % 4 / 2]));
            else
                o = __fmaf_rn(o, alpha[i % 4 / 2], sum);
        }
    }
};

// 16 rows as A operands, 32 bytes of each row in each.
__device__ __forceinline__ void load_queries(QueriesOf<true>::Type &q, const QueryTile &tile, const Lane &) { q.tile = &tile; }
__device__ __forceinline__ void load_queries(QueriesOf<false>::Type &q, const QueryTile &tile, const Lane &lane)
{
#pragma unroll
    for (unsigned i = 0; i < D / 32; i++)
        ldmatrix_x4(q[i], tile.address(lane.lane % 16, 2 * i + lane.lane / 16));
}

// Four neighboring columns of row h in 16 columns: 4t … 4t+3 of them.
__device__ __forceinline__ float4 four(const Output &out, unsigned c, unsigned h)
{
    return make_float4(out[c][0][2 * h], out[c][1][2 * h], out[c][0][2 * h + 1], out[c][1][2 * h + 1]);
}

// Two codes of the output, `low` in bits 0–15.
__device__ __forceinline__ unsigned cvt_output(float low, float high)
{
    return OUTPUT_BF16 ? cvt_bf16x2(low, high) : cvt_f16x2(low, high);
}

__device__ __forceinline__ void store_four(unsigned short *to, float4 x, float factor)
{
    st_global_v2(to, cvt_output(__fmul_rn(x.x, factor), __fmul_rn(x.y, factor)),
                 cvt_output(__fmul_rn(x.z, factor), __fmul_rn(x.w, factor)));
}
