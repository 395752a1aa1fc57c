// n8-occupancy: where rows are many, registers are given to warps instead of to keys.
//
// n8 changes n7 in one way, for long sequences: a tile has 32 keys instead of 64, so that its scores take half of the registers,
// and registers are held to what lets BLOCKS blocks live on a multiprocessor. With UNITS = 2 a warp has two units of 16 rows,
// and what was read of K and V is used for both. Tiles that every row of the block sees in whole come first, in a loop without
// masks; what is left of the keys is done in a second one.
#include "fp8.cuh"

#ifndef ROW_WARPS // warps of a block
#define ROW_WARPS 4
#endif
#ifndef UNITS // of 16 rows, of a warp
#define UNITS 1
#endif
#ifndef BLOCKS // of a multiprocessor, for which registers are held back
#define BLOCKS 1
#endif

constexpr unsigned THREADS = ROW_WARPS * 32, WARP_ROWS = UNITS * UNIT, ROWS = ROW_WARPS * WARP_ROWS;
static_assert(UNITS == 1 || UNITS == 2, "a warp has one unit or two");
static_assert(!SPLIT && !PACK_GQA && !Q_SCALES && !K_SCALES && !V_SCALES, "n7 does these");

struct SharedStorage {
    KeyTile k[2], v[2];
    QueryTile q[ROW_WARPS * UNITS];
};
static_assert(sizeof(SharedStorage) <= 48 * 1024, "what a block may have without asking");

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

// The rows of a warp.
struct WarpUnits {
    Partial part[UNITS];
    Queries q[UNITS];

    // Takes a tile of keys. FULL: every row sees all of them, and `rows` gives nothing but the factors.
    template <bool FULL>
    __device__ __forceinline__ void attend(const UnitRows *const (&rows)[2], const SharedStorage &s, unsigned stage, unsigned first,
                                           const Lane &lane)
    {
        Scores scores[UNITS];
        Weights weights[UNITS];
        float alpha[UNITS][2];
        TileScales none;
        score(scores, s.k[stage], lane);
#pragma unroll
        for (unsigned m = 0; m < UNITS; m++) {
            part[m].template soften<FULL>(scores[m], alpha[m], none, *rows[m], first, lane);
            Partial::pack(weights[m], scores[m], none, lane);
        }
        accumulate(weights, alpha, s.v[stage], lane);
    }

    __device__ __forceinline__ void score(Scores (&scores)[UNITS], const KeyTile &k, const Lane &lane)
    {
#pragma unroll
        for (unsigned n = 0; n < TILE_KEYS / 8; n++) {
#pragma unroll
            for (unsigned i = 0; i < D / 32; i += 2) {
                unsigned b[4];
                ldmatrix_x4(b, k.address(lane.lane % 8, 2 * i + lane.lane / 8, n * 8));
#pragma unroll
                for (unsigned m = 0; m < UNITS; m++) {
                    if (i == 0)
                        mma_m16n8k32_fp8_from_zero<INPUT, INPUT>(scores[m][n], q[m][i], b[0], b[1]);
                    else
                        mma_m16n8k32_fp8<INPUT, INPUT>(scores[m][n], q[m][i], b[0], b[1]);
                    mma_m16n8k32_fp8<INPUT, INPUT>(scores[m][n], q[m][i + 1], b[2], b[3]);
                }
            }
        }
    }

    __device__ __forceinline__ void accumulate(const Weights (&weights)[UNITS], const float (&alpha)[UNITS][2], const KeyTile &v,
                                               const Lane &lane)
    {
        TileScales none;
        static_assert(TILE_KEYS == 32, "one product of 32 keys");
#pragma unroll
        for (unsigned c = 0; c < D / 16; c++) {
            unsigned x[4];
            ldmatrix_x4_trans(x, v.address(lane.lane, c));
            const unsigned even[2] = {prmt<0x6420>(x[0], x[1]), prmt<0x6420>(x[2], x[3])};
            const unsigned odd[2] = {prmt<0x7531>(x[0], x[1]), prmt<0x7531>(x[2], x[3])};
            float tile[UNITS][2][4];
#pragma unroll
            for (unsigned m = 0; m < UNITS; m++) {
                mma_m16n8k32_fp8_from_zero<Fp8::E4M3, INPUT>(tile[m][0], weights[m][0], even[0], even[1]);
                mma_m16n8k32_fp8_from_zero<Fp8::E4M3, INPUT>(tile[m][1], weights[m][0], odd[0], odd[1]);
            }
#pragma unroll
            for (unsigned m = 0; m < UNITS; m++)
                part[m].add(c, tile[m], alpha[m], none);
        }
    }

    __device__ __forceinline__ void store(const UnitRows *const (&rows)[2], const Work &work, const Lane &lane) const
    {
        const float v_scale = work.keys == 0 ? 1.0f : work.v_scale(0);
#pragma unroll
        for (unsigned i = 0; i < UNITS * 2; i++) {
            const unsigned m = i / 2, h = i % 2, row = rows[m]->index(h, lane);
            const Softmax &softmax = part[m].softmax[h];
            const float sum = quad_sum(softmax.sum), factor = normal(sum, v_scale);
            if (row >= work.rows)
                continue;
            unsigned short *to = work.o(row) + 4 * lane.t;
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++)
                store_four(to + c * 16, four(part[m].out, c, h), factor);
            if (LSE && lane.t == 0)
                work.p.lse[work.lse_index(row)] = log_sum(softmax.origin(), sum, P_SHIFT);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Params p)
{
    __shared__ SharedStorage s;
    const Work work(p, ROWS);
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
    units.store({&low, &high}, work, late);
}
