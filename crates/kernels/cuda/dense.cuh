// What the rungs for many rows share: tiles of 32 keys, registers for as many warps as can be, one unit or two of 16 rows a warp.
#pragma once
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

// The rows of a warp.
struct WarpUnits {
    Partial part[UNITS];
    Queries q[UNITS];

    // Takes a tile of keys. FULL: every row sees all of them, and `rows` gives nothing but the factors. NUMBER: as in fp8.cuh.
    template <bool FULL, bool NUMBER = false>
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
            part[m].template soften<FULL, NUMBER>(scores[m], alpha[m], none, *rows[m], first, lane);
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

    // The lanes of a row put their sums of weights together.
    __device__ __forceinline__ void combine()
    {
#pragma unroll
        for (unsigned i = 0; i < UNITS * 2; i++)
            part[i / 2].softmax[i % 2].sum = quad_sum(part[i / 2].softmax[i % 2].sum);
    }

    __device__ __forceinline__ void store(const UnitRows *const (&rows)[2], const Work &work, const Lane &lane) const
    {
        const float v_scale = work.keys == 0 ? 1.0f : work.v_scale(0);
#pragma unroll
        for (unsigned i = 0; i < UNITS * 2; i++) {
            const unsigned m = i / 2, h = i % 2, row = rows[m]->index(h, lane);
            const Softmax &softmax = part[m].softmax[h];
            const float factor = normal(softmax.sum, v_scale);
            if (row >= work.rows)
                continue;
            unsigned short *to = work.o(row) + 4 * lane.t;
#pragma unroll
            for (unsigned c = 0; c < D / 16; c++)
                store_four(to + c * 16, four(part[m].out, c, h), factor);
            if (LSE && lane.t == 0)
                work.p.lse[work.lse_index(row)] = log_sum(softmax.origin(), softmax.sum, P_SHIFT);
        }
    }
};
