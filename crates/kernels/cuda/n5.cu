// n5-overlap, n6-grid-fit and n7-paired: keys and values stream through shared memory while the tensor cores work.
//
// n5 changes n4 in one way: nobody waits for what could have come before. K and V are copied by cp.async, one tile ahead, K in a
// group before V; the scale is folded into the exponent and tiles that are seen in whole are not masked (fp8.cuh); scales are
// read before the loop.
//
// n6 changes n5 in one way: the block is cut to the grid. As many units of 16 rows, ROW_WARPS, are
// chosen that all blocks are there at once and each multiprocessor has as many as the next.
//
// n7 changes n6 in one way: where rows are too few to keep the sub-cores busy, two warps share the keys of a unit, one the first
// half of the tiles and one the second, and the sums of the second come to the first through shared memory.
#include "fp8.cuh"
#include "merge.cuh"

#ifndef ROW_WARPS // units of 16 rows of a block
#define ROW_WARPS 4
#endif
#ifndef PAIRED // two warps share the keys of a unit
#define PAIRED 0
#endif

constexpr unsigned PARTS = PAIRED ? 2 : 1, THREADS = ROW_WARPS * PARTS * 32;
static_assert(!PAIRED || !SPLIT, "either warps or blocks share the keys");
static_assert(!PAIRED || !WINDOW_LEFT, "the two warps of a pair begin at the same tile of their halves");
static_assert(!PAIRED || !PAGED, "the tiles of a pair are in two pages");
static_assert(!PAIRED || !SINK, "both warps of a pair would take the sink");

// The sums of the second warp of each pair; neighboring rows are exchanged by halves of the banks.
struct Second {
    static constexpr unsigned UNITS = PAIRED ? ROW_WARPS : 1;
    float4 out[UNITS][UNIT][D / 4];
    float2 stats[UNITS][UNIT]; // maximum, sum

    __device__ __forceinline__ float4 &at(unsigned unit, unsigned row, unsigned four) { return out[unit][row][four ^ row % 2 * 4]; }
};

struct Tiles {
    KeyTile k[2][PARTS], v[2][PARTS];
};

struct SharedStorage {
    union {
        Tiles tiles;
        Second second[1]; // of pairs, once the tiles are used up
    };
    TileScales scales[2][PARTS];
    QueryTile q[ROW_WARPS];
};
static_assert(sizeof(SharedStorage) <= 48 * 1024, "what a block may have without asking");

__device__ __forceinline__ void load_queries_async(SharedStorage &s, const Work &work)
{
    constexpr unsigned CHUNKS = D / 16;
#pragma unroll
    for (unsigned i = threadIdx.x; i < ROW_WARPS * UNIT * CHUNKS; i += THREADS) {
        const unsigned row = i / CHUNKS, index = work.first_row + row;
        cp_async_16(s.q[row / UNIT].chunk(row % UNIT, i % CHUNKS), work.q(index) + i % CHUNKS * 16, index < work.rows ? 16 : 0);
    }
}

// A block's keys and values on their way. A thread keeps to its column of 16 bytes and steps down by the same number of rows, and
// from tile to tile by the same number of bytes: addresses are made once.
struct Stream {
    static constexpr unsigned CHUNKS = D / 16, STEP = THREADS / CHUNKS;
    SharedStorage &s;
    const Work &work;
    const unsigned char *k, *v; // this thread's piece of the next tile
    unsigned row, chunk, end;   // its first row of a tile; where the keys end
    unsigned half;              // keys of the first part

    __device__ __forceinline__ Stream(SharedStorage &s, const Work &work, unsigned first, unsigned end, unsigned half)
        : s(s), work(work), row(threadIdx.x / CHUNKS), chunk(threadIdx.x % CHUNKS), end(end), half(half)
    {
        if (PAGED)
            return; // each tile has a page of its own
        k = work.k() + (first + row) * work.p.k.row_stride + chunk * 16;
        v = work.v() + (first + row) * work.p.v.row_stride + chunk * 16;
    }

    // The page of the tile from key `first` on.
    __device__ __forceinline__ void turn_to(unsigned first)
    {
        const unsigned page = work.page(first), head = work.key_head(), at = work.row_of_page(first) + row;
        k = work.p.k.head(page, head, at) + chunk * 16;
        v = work.p.v.head(page, head, at) + chunk * 16;
    }

    // Copies a tile of each part, from key `first` of it on; zeros from the last key on.
    __device__ __forceinline__ void copy(KeyTile (&to)[PARTS], const unsigned char *&from, unsigned long long stride, unsigned first)
    {
#pragma unroll
        for (unsigned part = 0; part < PARTS; part++) {
#pragma unroll
            for (unsigned n = 0; n < (TILE_KEYS + STEP - 1) / STEP; n++) {
                const unsigned at = row + n * STEP;
                if (THREADS % CHUNKS != 0 && row >= STEP)
                    continue; // a thread too many for whole rows
                // Eight rows further down the swizzle is the same.
                unsigned char *place = reinterpret_cast<unsigned char *>(to[part].chunk(STEP % 8 == 0 ? row : at, chunk)) +
                                       (STEP % 8 == 0 ? n * STEP * D : 0);
                if (TILE_KEYS % STEP == 0 || at < TILE_KEYS)
                    cp_async_16(place, from + (part * half + n * STEP) * stride, first + part * half + at < work.keys ? 16 : 0);
            }
        }
        from += TILE_KEYS * stride;
    }

    // The next tile, K in a group before V; nothing beyond the end, but the groups are there.
    __device__ __forceinline__ void load(unsigned stage, unsigned first, const Lane &lane)
    {
        if (PAGED && first < end)
            turn_to(first);
        if (first < end)
            copy(s.tiles.k[stage], k, work.p.k.row_stride, first);
        cp_async_commit_group();
        if (first < end)
            copy(s.tiles.v[stage], v, work.p.v.row_stride, first);
        cp_async_commit_group();
        if ((K_SCALES || V_SCALES) && first < end && threadIdx.x < 32)
#pragma unroll
            for (unsigned part = 0; part < PARTS; part++)
                s.scales[stage][part].load(work, first + part * half, lane);
    }

    // Takes a tile of a part. FIRST: V is still to come.
    template <bool FIRST>
    __device__ __forceinline__ void attend(Partial &part, const Queries &q, const UnitRows &rows, unsigned own, unsigned stage,
                                           unsigned first, const Lane &lane)
    {
        const unsigned key = first + own * half;
        const KeyTile &k = s.tiles.k[stage][own], &v = s.tiles.v[stage][own];
        const TileScales &scales = s.scales[stage][own];
        const bool some = rows.some(key);
        Weights weights;
        float alpha[2];
        if (some && rows.full(key + TILE_KEYS))
            part.weigh<true>(weights, alpha, q, k, scales, rows, key, lane);
        else if (some)
            part.weigh<false>(weights, alpha, q, k, scales, rows, key, lane);
        if (FIRST) {
            cp_async_wait_group<2>(); // V; the next tile may still come
            __syncthreads();
        }
        if (some)
            part.accumulate(weights, alpha, v, scales, lane);
    }
};

// The rows as f16, or as they are for `merge`.
__device__ __forceinline__ void store(Partial &part, const UnitRows &rows, const Work &work, float v_scale, const Lane &lane)
{
    const Params &p = work.p;
    float *stats = p.partial + (unsigned long long)p.splits * p.batches * p.heads * p.queries * D;
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
        const unsigned row = rows.index(h, lane);
        const float sum = PAIRED ? part.softmax[h].sum : quad_sum(part.softmax[h].sum);
        if (row >= work.rows)
            continue;
        if (SPLIT) {
            unsigned long long index = work.partial_index(row);
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++)
                *reinterpret_cast<float4 *>(p.partial + index * D + c * 16 + 4 * lane.t) = four(part.out, c, h);
            if (lane.t == 0)
                *reinterpret_cast<float2 *>(stats + index * 2) = make_float2(part.softmax[h].maximum, sum);
        } else {
            const float factor = normal(sum, v_scale);
            unsigned short *to = work.o(row) + 4 * lane.t;
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++)
                store_four(to + c * 16, four(part.out, c, h), factor);
            if (LSE && lane.t == 0)
                p.lse[work.lse_index(row)] = log_sum(part.softmax[h].origin(), sum, P_SHIFT);
        }
    }
}

// Gives the sums of the second warp of a pair to the first.
__device__ __forceinline__ void join(Second &second, Partial &part, unsigned unit, unsigned own, const Lane &lane)
{
    if (own == 1) {
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            const unsigned row = lane.row(2 * h);
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++)
                second.at(unit, row, c * 4 + lane.t) = four(part.out, c, h);
            const float sum = quad_sum(part.softmax[h].sum);
            if (lane.t == 0)
                second.stats[unit][row] = make_float2(part.softmax[h].maximum, sum);
        }
    }
    __syncthreads();
    if (own == 0)
#pragma unroll
        for (unsigned h = 0; h < 2; h++) {
            const unsigned row = lane.row(2 * h);
            const float2 other = second.stats[unit][row];
            Softmax &softmax = part.softmax[h];
            const float before = softmax.maximum, sum = quad_sum(softmax.sum);
            softmax.maximum = fmaxf(before, other.x);
            const float first = ex2_ftz(__fsub_rn(before, softmax.origin())), rest = ex2_ftz(__fsub_rn(other.x, softmax.origin()));
            softmax.sum = __fmaf_rn(other.y, rest, __fmul_rn(sum, first));
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++) {
                const float4 x = second.at(unit, row, c * 4 + lane.t);
                const float more[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    float &o = part.out[c][i % 2][2 * h + i / 2];
                    o = __fmaf_rn(more[i], rest, __fmul_rn(o, first));
                }
            }
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work(p, ROW_WARPS * UNIT);
    if (work.first_row >= work.rows)
        return;
    const Lane lane;
    const unsigned warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), unit = warp / PARTS, own = warp % PARTS;
    // Tiles before the window of the first row are skipped; splits are counted from there.
    const unsigned begin = WINDOW_LEFT ? work.first_visible(work.first_row) / TILE_KEYS * TILE_KEYS : 0;
    const unsigned from = begin + (SPLIT ? work.split * p.tiles_per_split * TILE_KEYS : 0);
    const unsigned run = p.tiles_per_split * TILE_KEYS; // of a block or a warp that shares its keys
    const unsigned end = SPLIT || PAIRED ? min(work.end_key(), from + run) : work.end_key();

    Stream stream(s, work, from, end, PAIRED ? run : 0);
    load_queries_async(s, work);
    stream.load(0, from, lane);
    const UnitRows rows(work, work.first_row + unit * UNIT, lane);
    const float v_scale = V_SCALES || work.keys == 0 ? 1.0f : work.v_scale(0);

    Partial part;
    if (SINK && work.split == 0) // of all blocks that share a row, one
        part.take_sink(rows, lane);
    if (from < end) {
        cp_async_wait_group<1>(); // Q and K
        __syncthreads();
        Queries q;
        load_queries(q, s.q[unit], lane);
        stream.load(1, from + TILE_KEYS, lane);
        stream.attend<true>(part, q, rows, own, 0, from, lane);
        unsigned stage = 1;
#pragma unroll 1
        for (unsigned key = from + TILE_KEYS; key < end; key += TILE_KEYS, stage ^= 1) {
            cp_async_wait_group<0>();
            __syncthreads();
            stream.load(stage ^ 1, key + TILE_KEYS, lane); // where everybody has left
            stream.attend<false>(part, q, rows, own, stage, key, lane);
        }
    }
    if constexpr (PAIRED) {
        __syncthreads(); // the tiles are used up
        join(s.second[0], part, unit, own, lane);
        if (own == 1)
            return;
    }
    store(part, rows, work, v_scale, lane);
}

#if SPLIT
extern "C" __global__ void __launch_bounds__(32) merge(const __grid_constant__ Params p)
{
    merge_row<ex2_ftz, normal, P_SHIFT, V_SCALES != 0>(p);
}
#endif
