// n9-stream-k: work is cut evenly over blocks, not over tiles of rows (stream-K).
//
// n8 gives a block a tile of rows and all of its keys, and where tiles do not divide over the multiprocessors some of them idle. n9
// changes that alone: steps, of a tile of rows against a tile of keys, are numbered through, and every block of as many as the
// device holds at once takes an equal run of them. A run begins and ends inside a tile of rows, which two blocks then share, never
// three: the warp that comes first leaves its sums in memory, the one that comes last puts both together.
//
// A run has one loop for each of its tiles of rows. The Q of the second, and its first keys, come while the first is ended, and nobody
// but the warp itself is waited for then.
#include "dense.cuh"

static_assert(!CAUSAL && !VARLEN, "n8 does these");

// Where maxima begin: a number, the lowest, so that nobody asks whether one is -inf. What is made of it is the same, for 2 to the
// power of anything less it is 0.
constexpr float LOWEST = -3.402823466e38f;

// Steps of the whole, and those of a block.
struct Run {
    unsigned of_tile;    // steps of a tile of rows
    unsigned begin, end; // of the block

    __device__ __forceinline__ explicit Run(const Params &p) : of_tile(p.keys / TILE_KEYS)
    {
        // Blocks begin from the last on. A tile's second part is the beginning of a block, its first part the end of another: so
        // the sums that are left in memory are there for long when they are needed, and are needed by blocks that come later.
        const unsigned block = gridDim.x - 1 - blockIdx.x;
        const unsigned all = p.batches * p.heads * tiles_of_head(p) * of_tile;
        begin = bound(p, block), end = min(bound(p, block + 1), all);
    }
    static __device__ __forceinline__ unsigned tiles_of_head(const Params &p) { return (p.queries + ROWS - 1) / ROWS; }
    static __device__ __forceinline__ unsigned bound(const Params &p, unsigned block) { return block * p.tiles_per_split / p.splits; }
};

// The tile of rows of that number.
__device__ __forceinline__ Work work_of(const Params &p, unsigned tile)
{
    const unsigned tiles = Run::tiles_of_head(p), head = tile / tiles;
    return Work(p, ROWS, tile % tiles, head % p.heads, head / p.heads);
}

// Keys, values and queries on their way. A thread keeps to its column of 16 bytes.
struct Stream {
    static constexpr unsigned CHUNKS = D / 16, STEP = THREADS / CHUNKS;
    static_assert(TILE_KEYS % STEP == 0 && STEP % 8 == 0, "every thread has as many pieces, in the same place of the swizzle");
    SharedStorage &s;
    const unsigned char *k, *v; // this thread's piece of the next tile
    unsigned place;             // of its first piece in a tile

    __device__ __forceinline__ explicit Stream(SharedStorage &s) : s(s)
    {
        place = KeyTile::offset(threadIdx.x / CHUNKS, threadIdx.x % CHUNKS);
    }

    // Goes on with another tile of rows, from some key on. A warp copies its own queries: nobody else reads them.
    __device__ __forceinline__ void turn_to(const Work &work, unsigned key, unsigned warp, const Lane &lane)
    {
        const unsigned row = key + threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 16;
        k = work.k() + row * work.p.k.row_stride + column;
        v = work.v() + row * work.p.v.row_stride + column;
#pragma unroll
        for (unsigned i = lane.lane; i < WARP_ROWS * CHUNKS; i += 32) {
            const unsigned own = i / CHUNKS, index = work.first_row + warp * WARP_ROWS + own;
            cp_async_16(s.q[warp * UNITS + own / UNIT].chunk(own % UNIT, i % CHUNKS), work.q(index) + i % CHUNKS * 16,
                        index < work.rows ? 16 : 0);
        }
    }

    __device__ __forceinline__ void copy(KeyTile &to, const unsigned char *&from, unsigned long long stride)
    {
#pragma unroll
        for (unsigned n = 0; n < TILE_KEYS / STEP; n++)
            cp_async_16(&to.bytes[0][0] + place + n * STEP * D, from + n * STEP * stride, 16);
        from += TILE_KEYS * stride;
    }

    __device__ __forceinline__ void load(const Params &p, unsigned stage)
    {
        copy(s.k[stage], k, p.k.row_stride);
        copy(s.v[stage], v, p.v.row_stride);
    }
};

// Where the two parts of a tile of rows meet: the sums of a warp of each, and who has come.
struct Seam {
    float4 *sums;  // [unit and half][D / 16][lane]
    float2 *stats; // [unit and half][row]: maximum, sum
    unsigned *arrived; // the epoch of a launch of which one part has come; anything else is of an earlier launch and counts for nothing
    unsigned epoch;
    static constexpr unsigned FLOATS = WARP_ROWS * (D + 2); // of a warp

    // The seam at the beginning of a block's run, and a part on either side of it.
    __device__ __forceinline__ Seam(const Params &p, unsigned block, unsigned part, unsigned warp)
    {
        const unsigned counters = (gridDim.x * ROW_WARPS + 31) / 32 * 32; // then lines begin where sums do
        float *at = p.partial + counters + (unsigned long long)((block * 2 + part) * ROW_WARPS + warp) * FLOATS;
        sums = reinterpret_cast<float4 *>(at);
        stats = reinterpret_cast<float2 *>(at + WARP_ROWS * D);
        arrived = reinterpret_cast<unsigned *>(p.partial) + block * ROW_WARPS + warp;
        epoch = p.epoch;
    }

    // Whether the other part is there; if so, the seam is free again: a graph may launch the same epoch once more.
    __device__ __forceinline__ bool taken(const Lane &lane) const
    {
        unsigned other = 0;
        if (lane.lane == 0) {
            other = atomicCAS(arrived, epoch, 0);
            __threadfence(); // what it left is read after
        }
        __syncwarp();
        return __shfl_sync(0xffffffff, other, 0) == epoch;
    }
    // Likewise, after this part was left.
    __device__ __forceinline__ bool left_last(const Lane &lane) const
    {
        unsigned other = 0;
        __syncwarp(); // all lanes have left theirs
        if (lane.lane == 0) {
            __threadfence();
            other = atomicExch(arrived, epoch);
            if (other == epoch)
                atomicExch(arrived, 0);
            __threadfence();
        }
        __syncwarp();
        return __shfl_sync(0xffffffff, other, 0) == epoch;
    }

    __device__ __forceinline__ void leave(const WarpUnits &units, const Lane &lane) const
    {
#pragma unroll
        for (unsigned i = 0; i < UNITS * 2; i++) {
            const Partial &part = units.part[i / 2];
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++)
                __stcg(&sums[(i * (D / 16) + c) * 32 + lane.lane], four(part.out, c, i % 2));
            if (lane.t == 0)
                __stcg(&stats[i * 8 + lane.g], make_float2(part.softmax[i % 2].maximum, part.softmax[i % 2].sum));
        }
    }

    // Adds the sums of the other part. FIRST: these are of the first keys.
    template <bool FIRST> __device__ __forceinline__ void join(WarpUnits &units, const Lane &lane) const
    {
#pragma unroll
        for (unsigned i = 0; i < UNITS * 2; i++) {
            Partial &part = units.part[i / 2];
            Softmax &softmax = part.softmax[i % 2];
            const float2 other = __ldcg(&stats[i * 8 + lane.g]);
            const float before = softmax.maximum;
            softmax.maximum = fmaxf(before, other.x);
            const float own = ex2_ftz(__fsub_rn(before, softmax.maximum)), more = ex2_ftz(__fsub_rn(other.x, softmax.maximum));
            auto add = [&](float x, float y) {
                return FIRST ? __fmaf_rn(x, own, __fmaf_rn(y, more, 0.0f)) : __fmaf_rn(y, more, __fmaf_rn(x, own, 0.0f));
            };
            softmax.sum = add(softmax.sum, other.y);
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++) {
                const float4 four = __ldcg(&sums[(i * (D / 16) + c) * 32 + lane.lane]);
                const float x[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (unsigned n = 0; n < 4; n++) {
                    float &o = part.out[c][n % 2][i % 2 * 2 + n / 2];
                    o = add(o, x[n]);
                }
            }
        }
    }
};

// Stores the rows of a tile whose last step in this run was taken, or leaves them for another block.
__device__ __forceinline__ void end_tile(const Params &p, WarpUnits &units, const Run &run, unsigned tile, unsigned warp,
                                         const Lane &lane)
{
    const unsigned first = tile * run.of_tile;
    const bool from_before = first < run.begin, goes_on = first + run.of_tile > run.end;
    units.combine();
    bool whole = true;
    if (from_before || goes_on) {
        const unsigned block = gridDim.x - 1 - blockIdx.x + goes_on; // the one that begins at the seam
        const Seam own(p, block, from_before, warp), other(p, block, !from_before, warp);
        whole = own.taken(lane);
        if (!whole) {
            own.leave(units, lane);
            whole = own.left_last(lane);
        }
        if (whole && from_before)
            other.join<true>(units, lane);
        else if (whole)
            other.join<false>(units, lane);
    }
    if (whole) {
        const Work work = work_of(p, tile);
        const UnitRows low(work, work.first_row + warp * WARP_ROWS, lane), high(low, low.first + UNIT, lane);
        units.store({&low, &high}, work, lane);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Run run(p);
    if (run.begin >= run.end)
        return;
    const Lane lane;
    const unsigned warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const unsigned tile = run.begin / run.of_tile, next_tile = (tile + 1) * run.of_tile; // the step with which the next tile begins
    const bool turns = next_tile < run.end;
    const unsigned middle = turns ? next_tile : (run.begin + run.end) / 2; // the same way for runs inside of one tile

    Stream stream(s);
    stream.turn_to(work_of(p, tile), (run.begin - tile * run.of_tile) * TILE_KEYS, warp, lane);
    stream.load(p, 0);
    cp_async_commit_group();
    const Work any(p, ROWS, 0, 0, 0);
    WarpUnits units;
    float factor; // of the scores of this tile
    unsigned step = run.begin, stage = 0;
    auto begin = [&](unsigned tile) {
        const Work work = work_of(p, tile);
        factor = __fmul_rn(work.q_factor(0), work.k_scale(0));
#pragma unroll
        for (unsigned m = 0; m < UNITS; m++) {
            load_queries(units.q[m], s.q[warp * UNITS + m], lane);
            units.part[m] = Partial();
            units.part[m].softmax[0].maximum = units.part[m].softmax[1].maximum = LOWEST;
        }
    };
    auto wait = [&] {
        cp_async_wait_group<0>();
        __syncthreads();
    };
    auto attend = [&] {
        const UnitRows rows(any, factor);
        units.attend<true, true>({&rows, &rows}, s, stage, 0, lane);
        step++, stage ^= 1;
    };
    wait();
    begin(tile);
    const unsigned copied = turns ? middle : run.end; // by the first loop, up to the step before
#pragma unroll 1
    while (step < middle) {
        wait();
        if (step + 1 < copied)
            stream.load(p, stage ^ 1); // where everybody has left
        cp_async_commit_group();
        attend();
    }
    if (turns) {
        // On their way while the tile before is ended.
        stream.turn_to(work_of(p, tile + 1), 0, warp, lane);
        stream.load(p, stage);
        cp_async_commit_group();
        end_tile(p, units, run, tile, warp, lane);
        cp_async_wait_group<0>();
        __syncwarp();
        begin(tile + 1);
    }
#pragma unroll 1
    while (step < run.end) {
        wait();
        if (step + 1 < run.end)
            stream.load(p, stage ^ 1);
        cp_async_commit_group();
        attend();
    }
    end_tile(p, units, run, turns ? tile + 1 : tile, warp, lane);
}
