// n8-occupancy: where rows are many, registers are given to warps instead of to keys.
//
// n8 changes n7 in one way, for long sequences: a tile has 32 keys instead of 64, so that its scores take half of the registers,
// and registers are held to what lets BLOCKS blocks live on a multiprocessor. With UNITS = 2 a warp has two units of 16 rows,
// and what was read of K and V is used for both. Tiles that every row of the block sees in whole come first, in a loop without
// masks; what is left of the keys is done in a second one.
#include "dense.cuh"

__device__ __forceinline__ void load_queries_async(SharedStorage &s, const Work &work)
{
    constexpr unsigned CHUNKS = D / 16;
#pragma unroll
    for (unsigned i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
        const unsigned row = i / CHUNKS, index = work.first_row + row;
        cp_async_16(s.q[row / UNIT].chunk(row % UNIT, i % CHUNKS), work.q(index) + i % CHUNKS * 16, index < work.rows ? 16 : 0);
    }
}

// A block's keys and values on their way. A thread keeps to its column of 16 bytes; addresses are made once.
struct Stream {
    static constexpr unsigned CHUNKS = D / 16, STEP = THREADS / CHUNKS;
    static_assert(TILE_KEYS % STEP == 0 && STEP % 8 == 0, "every thread has as many pieces, in the same place of the swizzle");
    SharedStorage &s;
    const Work &work;
    const unsigned char *k, *v; // this thread's piece of the next tile
    unsigned end;               // where the keys end
    unsigned place;             // of its first piece in a tile

    __device__ __forceinline__ Stream(SharedStorage &s, const Work &work, unsigned end)
        : s(s), work(work), end(end)
    {
        const unsigned row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
        k = work.k() + row * work.p.k.row_stride + chunk * 16;
        v = work.v() + row * work.p.v.row_stride + chunk * 16;
        place = KeyTile::offset(row, chunk);
    }

    __device__ __forceinline__ void copy(KeyTile &to, const unsigned char *&from, unsigned long long stride, unsigned first)
    {
        const unsigned row = first + threadIdx.x / CHUNKS;
#pragma unroll
        for (unsigned n = 0; n < TILE_KEYS / STEP; n++)
            cp_async_16(&to.bytes[0][0] + place + n * STEP * D, from + n * STEP * stride, row + n * STEP < work.keys ? 16 : 0);
        from += TILE_KEYS * stride;
    }

    // The next tile, zeros from the last key on; nothing beyond the end, but the group is there.
    __device__ __forceinline__ void load(unsigned stage, unsigned first)
    {
        if (first < end) {
            copy(s.k[stage], k, work.p.k.row_stride, first);
            copy(s.v[stage], v, work.p.v.row_stride, first);
        }
        cp_async_commit_group();
    }
};

// What a block has. With a mask the last rows see the most keys: they come first, of all heads, so that the last blocks to begin are
// those that end soonest. The grid is then x = heads, y = tiles of query rows.
__device__ __forceinline__ Work work_of(const Params &p)
{
    if (!CAUSAL)
        return Work(p, ROWS);
    return Work(p, ROWS, gridDim.y - 1 - blockIdx.y, blockIdx.x, blockIdx.z);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work = work_of(p);
    if (work.first_row >= work.rows)
        return;
    const Lane lane;
    const unsigned warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), end = work.end_key();
    // What every row sees is what the first sees. With a negative factor the smallest score would be the largest.
    const unsigned whole = p.factor >= 0.0f ? min(end, work.visible(work.first_row)) / TILE_KEYS * TILE_KEYS : 0;

    Stream stream(s, work, end);
    load_queries_async(s, work);
    stream.load(0, 0);
    const UnitRows factors(work, work.first_row, lane);
    WarpUnits units;
    cp_async_wait_group<0>();
    __syncthreads();
#pragma unroll
    for (unsigned m = 0; m < UNITS; m++)
        load_queries(units.q[m], s.q[warp * UNITS + m], lane);

    unsigned key = 0, stage = 0;
    auto next = [&] {
        cp_async_wait_group<0>();
        __syncthreads();
        stream.load(stage ^ 1, key + TILE_KEYS); // where everybody has left
    };
#pragma unroll 1
    for (; key < whole; key += TILE_KEYS, stage ^= 1) {
        next();
        units.attend<true>({&factors, &factors}, s, stage, key, lane);
    }
    // Rows, and what they see, matter from here on. Made anew where they are used: before, they would take registers of the
    // loop above.
    constexpr bool AGAIN = CAUSAL && D == 128;
    const unsigned thread = AGAIN ? thread_again() : threadIdx.x;
    const Lane late(thread);
    const unsigned first_row = work.first_row + (AGAIN ? thread / 32 : warp) * WARP_ROWS;
#pragma unroll 1
    for (; key < end; key += TILE_KEYS, stage ^= 1) {
        next();
        const UnitRows low(factors, first_row, late), high(factors, first_row + UNIT, late);
        if (low.some(key) || (UNITS == 2 && high.some(key)))
            units.attend<false>({&low, &high}, s, stage, key, late);
    }
    const UnitRows low(factors, first_row, late), high(factors, first_row + UNIT, late);
    units.combine();
    units.store({&low, &high}, work, late);
}
