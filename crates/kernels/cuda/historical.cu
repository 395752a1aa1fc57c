// The historical rungs: attention on 8-bit linear codes, value = (code - 128) · scale of the head, products in f16 and f32.
//
//   rung               toggles                          reported then (B=1 H=8 S=512 D=64)
//   h0-scalar          none                             nothing
//   h1-cp-async        USE_CP_ASYNC                     1199 µs
//   h2-wmma-pv         and USE_WMMA_PV                  656 µs
//   h3a-reuse-scores   h2 and USE_SCORE_REUSE           0.2 %, which is one tick of the timer
//   h3b-fused-softmax  h2 and USE_FUSED_SOFTMAX_PV      wrong results: two warps updated the sums of one row
//   h4-three-stage     h2 and USE_CP_ASYNC_3STAGE       0.7 %, against a control that was wrong
//
// USE_CP_ASYNC          K and V codes come by cp.async into two stages, a tile ahead; else by plain loads when they are due.
// USE_CP_ASYNC_3STAGE   three stages, two tiles ahead.
// USE_WMMA_PV           P · V by wmma with P in f16; else a chain of f32 FMA with P in f32.
// USE_SCORE_REUSE       P lies over the scores it was made of: 2,048 bytes less.
// USE_FUSED_SOFTMAX_PV  a row's scores stay in the registers of the one warp that owns the row; else they go through shared
//                       memory to four lanes, mostly of another warp.
// USE_SMEM_SWIZZLE_XOR  rows of K are 64 halves with their 16-byte chunks XORed by row & 7; else 64 padded to 72. The one
//                       that is 1 unless it is set (tile.cuh); the rungs were 0.
//
// A block takes 32 rows of one head and walks over the keys, 32 at a time; sums and output lie in shared memory.
#include <cuda_fp16.h>
#include <mma.h>

#include "fragment.cuh"
#include "ptx.cuh"
#include "softmax.cuh"
#include "tile.cuh"
#include "work.cuh"

#ifndef USE_CP_ASYNC
#define USE_CP_ASYNC 0
#endif
#ifndef USE_CP_ASYNC_3STAGE
#define USE_CP_ASYNC_3STAGE 0
#endif
#ifndef USE_WMMA_PV
#define USE_WMMA_PV 0
#endif
#ifndef USE_SCORE_REUSE
#define USE_SCORE_REUSE 0
#endif
#ifndef USE_FUSED_SOFTMAX_PV
#define USE_FUSED_SOFTMAX_PV 0
#endif

constexpr unsigned D = HEAD_DIM;

struct Tile {
    static constexpr unsigned ROWS = 32, KEYS = 32, THREADS = 128;
    static constexpr unsigned WARP_ROWS = ROWS / (THREADS / 32); // whose softmax and output are a warp's
    static constexpr unsigned STAGES = USE_CP_ASYNC_3STAGE ? 3 : 2;
    static_assert(D == 64, "a row's output is two columns for each lane, its codes are four chunks");
    static_assert(THREADS == ROWS * D / 16 && ROWS == KEYS, "a chunk of codes for each thread");
    static_assert(USE_CP_ASYNC || !USE_CP_ASYNC_3STAGE, "stages of cp.async");
    static_assert(USE_WMMA_PV || !(USE_SCORE_REUSE || USE_FUSED_SOFTMAX_PV), "for P in f16; in f32 it always lies there");
    static_assert(!(USE_SCORE_REUSE && USE_FUSED_SOFTMAX_PV), "no scores are stored to lie over");
    static_assert(!(VARLEN || SPLIT || PACK_GQA), "not in these rungs");
};

using CodeTile = unsigned char[Tile::KEYS][D];

template <bool SWIZZLE> struct HalfTile { // [32][D] dequantized values
    static constexpr unsigned PITCH = SWIZZLE ? D : D + 8;
    half rows[Tile::KEYS][PITCH];

    // Eight values; the same chunk of eight consecutive rows lies in different banks.
    __device__ __forceinline__ uint4 &chunk(unsigned row, unsigned chunk)
    {
        return *reinterpret_cast<uint4 *>(&rows[row][(SWIZZLE ? chunk ^ (row & 7) : chunk) * 8]);
    }
    // The thread's 16 codes: row threadIdx.x / 4, a quarter of it.
    __device__ __forceinline__ void decode(const uint4 &codes, float scale)
    {
        const unsigned words[4] = {codes.x, codes.y, codes.z, codes.w};
        unsigned values[8];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            unsigned pair = words[i / 2] >> i % 2 * 16;
            values[i] = cvt_f16x2(__fmul_rn(__fsub_rn(static_cast<float>(pair & 255), 128.0f), scale),
                                  __fmul_rn(__fsub_rn(static_cast<float>(pair >> 8 & 255), 128.0f), scale));
        }
#pragma unroll
        for (unsigned i = 0; i < 2; i++)
            chunk(threadIdx.x / 4, threadIdx.x % 4 * 2 + i) =
                make_uint4(values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]);
    }
};

struct __align__(32) SharedStorage {
#if USE_CP_ASYNC
    CodeTile k_codes[Tile::STAGES], v_codes[Tile::STAGES];
#endif
    HalfTile<false> q;
    HalfTile<USE_SMEM_SWIZZLE_XOR> k;
    HalfTile<false> v;
#if !USE_FUSED_SOFTMAX_PV
    float score[Tile::ROWS][Tile::KEYS + 4];
#endif
#if USE_WMMA_PV && !USE_SCORE_REUSE
    half p[Tile::ROWS][Tile::KEYS];
#endif
    float out[Tile::ROWS][D];
    float row_max[Tile::ROWS], row_sum[Tile::ROWS];

    // P, and the elements from one row of it to the next.
#if USE_WMMA_PV && !USE_SCORE_REUSE
    static constexpr unsigned P_PITCH = Tile::KEYS;
    __device__ __forceinline__ half *weights(unsigned row) { return p[row]; }
#elif USE_WMMA_PV
    static constexpr unsigned P_PITCH = (Tile::KEYS + 4) * 2;
    __device__ __forceinline__ half *weights(unsigned row) { return reinterpret_cast<half *>(score[row]); }
#else
    __device__ __forceinline__ float *weights(unsigned row) { return score[row]; }
#endif
    // The two columns of an output row that are this lane's.
    __device__ __forceinline__ float2 &columns(unsigned row)
    {
        return *reinterpret_cast<float2 *>(&out[row][threadIdx.x % 32 * 2]);
    }
};
static_assert(!(USE_CP_ASYNC && USE_WMMA_PV) || USE_CP_ASYNC_3STAGE || USE_SCORE_REUSE || USE_FUSED_SOFTMAX_PV ||
                  USE_SMEM_SWIZZLE_XOR || sizeof(SharedStorage) == 37120, "what h2 had");

// K and V of the block's head as one thread sees them: its row and quarter of each tile. A thread copies, waits for and
// decodes the same 16 bytes, so that nobody else has to be waited for.
struct Keys {
    const Work &work;
    const unsigned char *k, *v;
    float k_scale, v_scale;
    unsigned end; // of the keys that any row of the block sees
    unsigned row = threadIdx.x / 4, byte = threadIdx.x % 4 * 16;

    __device__ __forceinline__ Keys(const Work &work)
        : work(work), k(work.k()), v(work.v()), k_scale(work.k_scale(0)), v_scale(work.v_scale(0)),
          end(work.end_key())
    {
    }

    // Starts to copy tile `first` … into a stage; rows beyond the last key become zeros. A tile beyond the last is an empty
    // group: there is always one group for each tile, and the count of wait() names the tile in use, also at the last ones.
    __device__ __forceinline__ void copy(SharedStorage &s, unsigned stage, unsigned first) const
    {
#if USE_CP_ASYNC
        if (first < end) {
            bool inside = first + row < work.keys;
            unsigned from = inside ? first + row : 0;
            cp_async_16(&s.k_codes[stage][row][byte], k + from * work.p.k.row_stride + byte, inside ? 16 : 0);
            cp_async_16(&s.v_codes[stage][row][byte], v + from * work.p.v.row_stride + byte, inside ? 16 : 0);
        }
        cp_async_commit_group();
#endif
    }
    // Until the oldest tile of STAGES has landed.
    __device__ __forceinline__ void wait() const
    {
#if USE_CP_ASYNC
        cp_async_wait_group<Tile::STAGES - 1>();
#endif
    }
    // Rows beyond the last key are zeros.
    __device__ __forceinline__ void decode(SharedStorage &s, unsigned stage, unsigned first) const
    {
        bool inside = first + row < work.keys;
        uint4 k_chunk = {}, v_chunk = {};
#if USE_CP_ASYNC
        k_chunk = *reinterpret_cast<const uint4 *>(&s.k_codes[stage][row][byte]);
        v_chunk = *reinterpret_cast<const uint4 *>(&s.v_codes[stage][row][byte]);
#else
        if (inside) {
            k_chunk = *reinterpret_cast<const uint4 *>(k + (first + row) * work.p.k.row_stride + byte);
            v_chunk = *reinterpret_cast<const uint4 *>(v + (first + row) * work.p.v.row_stride + byte);
        }
#endif
        s.k.decode(k_chunk, inside ? k_scale : 0.0f);
        s.v.decode(v_chunk, inside ? v_scale : 0.0f);
    }
};

// Q is decoded, the sums are those of no key.
__device__ __forceinline__ void begin(SharedStorage &s, const Work &work)
{
    unsigned row = work.first_row + threadIdx.x / 4;
    uint4 codes = {};
    if (row < work.rows)
        codes = *reinterpret_cast<const uint4 *>(work.q(row) + threadIdx.x % 4 * 16);
    s.q.decode(codes, row < work.rows ? work.q_scale(row) : 0.0f);
    for (unsigned r = threadIdx.x / 32; r < Tile::ROWS; r += Tile::THREADS / 32)
        s.columns(r) = make_float2(0.0f, 0.0f);
    if (threadIdx.x < Tile::ROWS) {
        s.row_max[threadIdx.x] = -infinity();
        s.row_sum[threadIdx.x] = 0.0f;
    }
}

using Scores = float[Tile::ROWS * Tile::KEYS / Tile::THREADS]; // of one key, which is the lane, with rows of score_row

// Row i of a warp's scores: its own ones if it needs nobody else's, else every fourth of the tile.
__device__ __forceinline__ unsigned score_row(unsigned i)
{
    unsigned warp = threadIdx.x / 32;
    return USE_FUSED_SOFTMAX_PV ? warp * Tile::WARP_ROWS + i : i * (Tile::THREADS / 32) + warp;
}

__device__ __forceinline__ void unpack(float (&values)[8], const uint4 &chunk)
{
    const half2 *pairs = reinterpret_cast<const half2 *>(&chunk);
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        values[i] = i % 2 ? __high2float(pairs[i / 2]) : __low2float(pairs[i / 2]);
}

// scores = Q · Kᵀ, each a chain of FMA from the first column to the last.
__device__ __forceinline__ void score(Scores &scores, SharedStorage &s)
{
#pragma unroll
    for (float &a : scores)
        a = 0.0f;
#pragma unroll 2
    for (unsigned c = 0; c < D / 8; c++) {
        float k[8];
        unpack(k, s.k.chunk(threadIdx.x % 32, c));
#pragma unroll
        for (unsigned i = 0; i < Tile::WARP_ROWS; i++) {
            float q[8];
            unpack(q, s.q.chunk(score_row(i), c));
#pragma unroll
            for (unsigned d = 0; d < 8; d++)
                scores[i] = __fmaf_rn(q[d], k[d], scores[i]);
        }
    }
#if !USE_FUSED_SOFTMAX_PV
#pragma unroll
    for (unsigned i = 0; i < Tile::WARP_ROWS; i++)
        s.score[score_row(i)][threadIdx.x % 32] = scores[i];
#endif
}

// A step of a row's softmax: the lane's N scores become weights; returns the factor of everything summed so far. The row is
// that of all 32 lanes or of four.
template <unsigned N> __device__ __forceinline__ float step(float (&y)[N], SharedStorage &s, unsigned row)
{
    Softmax stats{s.row_max[row], s.row_sum[row]};
    float maximum = -infinity(), sum = 0.0f;
#pragma unroll
    for (float score : y)
        maximum = fmaxf(maximum, score);
    float alpha = stats.raise(USE_FUSED_SOFTMAX_PV ? warp_max(maximum) : quad_max(maximum));
#pragma unroll
    for (float &p : y) {
        p = ex2(__fsub_rn(p, stats.origin()));
        sum = __fadd_rn(sum, p);
    }
    stats.sum = __fmaf_rn(stats.sum, alpha, USE_FUSED_SOFTMAX_PV ? warp_sum(sum) : quad_sum(sum));
    __syncwarp(); // the row's lanes have read what is replaced now: its sums, and with USE_SCORE_REUSE its scores
    if (threadIdx.x % (USE_FUSED_SOFTMAX_PV ? 32 : 4) == 0) {
        s.row_max[row] = stats.maximum;
        s.row_sum[row] = stats.sum;
    }
    return alpha;
}

__device__ __forceinline__ void rescale(SharedStorage &s, unsigned row, float alpha)
{
    float2 &out = s.columns(row);
    out = make_float2(__fmul_rn(out.x, alpha), __fmul_rn(out.y, alpha));
}

// P = weights of the tile's scores; the output and the sums are brought to the new maximum.
__device__ __forceinline__ void soften(const Scores &scores, SharedStorage &s, const Work &work, unsigned first)
{
    const unsigned lane = threadIdx.x % 32, own = threadIdx.x / 32 * Tile::WARP_ROWS;
#if USE_FUSED_SOFTMAX_PV
#pragma unroll
    for (unsigned i = 0; i < Tile::WARP_ROWS; i++) { // all lanes on each row
        unsigned row = own + i;
        bool seen = first + lane < work.visible(work.first_row + row);
        float y[1] = {seen ? __fmul_rn(scores[i], work.p.factor) : -infinity()};
        rescale(s, row, step(y, s, row));
        s.weights(row)[lane] = __float2half_rn(y[0]);
    }
#else
    const unsigned row = threadIdx.x / 4, visible = work.visible(work.first_row + row); // four lanes on each row
    float y[Tile::KEYS / 4];
#pragma unroll
    for (unsigned i = 0; i < Tile::KEYS / 4; i++) {
        unsigned key = 4 * i + lane % 4;
        y[i] = first + key < visible ? __fmul_rn(s.score[row][key], work.p.factor) : -infinity();
    }
    float alpha = step(y, s, row);
#pragma unroll
    for (unsigned i = 0; i < Tile::KEYS / 4; i++)
        s.weights(row)[4 * i + lane % 4] = y[i]; // in f16 to nearest, or as it is
#pragma unroll
    for (unsigned i = 0; i < Tile::WARP_ROWS; i++)
        rescale(s, own + i, __shfl_sync(0xffffffff, alpha, 4 * i));
#endif
}

// out += P · V.
__device__ __forceinline__ void accumulate(SharedStorage &s)
{
    const unsigned warp = threadIdx.x / 32;
#if USE_WMMA_PV
    using namespace nvcuda::wmma;
    const unsigned row = warp / 2 * 16; // a warp takes 16 rows × 32 columns
#pragma unroll
    for (unsigned column = warp % 2 * 32, i = 0; i < 2; column += 16, i++) {
        fragment<accumulator, 16, 16, 16, float> out;
        load_matrix_sync(out, &s.out[row][column], D, mem_row_major);
#pragma unroll
        for (unsigned key = 0; key < Tile::KEYS; key += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> p;
            fragment<matrix_b, 16, 16, 16, half, row_major> v;
            load_matrix_sync(p, s.weights(row) + key, s.P_PITCH);
            load_matrix_sync(v, &s.v.rows[key][column], s.v.PITCH);
            mma_sync(out, p, v, out);
        }
        store_matrix_sync(&s.out[row][column], out, D, mem_row_major);
    }
#else
    float2 out[Tile::WARP_ROWS]; // a warp takes its own rows
#pragma unroll
    for (unsigned i = 0; i < Tile::WARP_ROWS; i++)
        out[i] = s.columns(warp * Tile::WARP_ROWS + i);
#pragma unroll 4
    for (unsigned key = 0; key < Tile::KEYS; key++) {
        float2 v = __half22float2(*reinterpret_cast<const half2 *>(&s.v.rows[key][threadIdx.x % 32 * 2]));
#pragma unroll
        for (unsigned i = 0; i < Tile::WARP_ROWS; i++) {
            float p = s.weights(warp * Tile::WARP_ROWS + i)[key];
            out[i] = make_float2(__fmaf_rn(p, v.x, out[i].x), __fmaf_rn(p, v.y, out[i].y));
        }
    }
#pragma unroll
    for (unsigned i = 0; i < Tile::WARP_ROWS; i++)
        s.columns(warp * Tile::WARP_ROWS + i) = out[i];
#endif
}

__device__ __forceinline__ void store(SharedStorage &s, const Work &work)
{
    const unsigned lane = threadIdx.x % 32;
    for (unsigned r = threadIdx.x / 32; r < Tile::ROWS && work.first_row + r < work.rows; r += Tile::THREADS / 32) {
        const Softmax stats{s.row_max[r], s.row_sum[r]};
        const float2 out = s.columns(r);
        float factor = reciprocal(stats.sum);
        reinterpret_cast<unsigned *>(work.o(work.first_row + r))[lane] =
            cvt_f16x2(__fmul_rn(out.x, factor), __fmul_rn(out.y, factor));
        if (LSE && lane == 0)
            work.p.lse[work.lse_index(work.first_row + r)] = log_sum(stats.origin(), stats.sum, 0.0f);
    }
}

extern "C" __global__ void __launch_bounds__(Tile::THREADS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work(p, Tile::ROWS);
    if (work.first_row >= work.rows)
        return;
    const Keys keys(work);

    begin(s, work);
    for (unsigned stage = 0; stage + 1 < Tile::STAGES; stage++)
        keys.copy(s, stage, stage * Tile::KEYS);
#pragma unroll 1
    for (unsigned first = 0, tile = 0; first < keys.end; first += Tile::KEYS, tile++) {
        const unsigned ahead = tile + Tile::STAGES - 1;
        keys.copy(s, ahead % Tile::STAGES, ahead * Tile::KEYS);
        keys.wait();
        __syncthreads(); // the last tile is used up
        keys.decode(s, tile % Tile::STAGES, first);
        __syncthreads();

        Scores scores;
        score(scores, s);
        if (!USE_FUSED_SOFTMAX_PV)
            __syncthreads(); // a row's scores are of all warps
        soften(scores, s, work, first);
        __syncthreads();
        accumulate(s);
    }
    __syncthreads();
    store(s, work);
}
