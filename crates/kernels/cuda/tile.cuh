// Rows of a head in shared memory: how they get there, and how they lie.
#pragma once
#include "ptx.cuh"

#ifndef USE_SMEM_SWIZZLE_XOR
#define USE_SMEM_SWIZZLE_XOR 1
#endif

// Gives `put(row, piece, codes)` every piece of ROWS rows of D codes, from row `first` of a head on; zeros from row `end` on,
// for what is beyond the last key is multiplied too. `row_of(row)` is where a row begins; Codes is what a thread reads at once.
template <unsigned ROWS, unsigned D, unsigned THREADS, class Codes, class RowOf, class Put>
__device__ __forceinline__ void load_rows(unsigned first, unsigned end, RowOf row_of, Put put)
{
    constexpr unsigned PIECES = D / sizeof(Codes);
    for (unsigned i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        unsigned row = i / PIECES, piece = i % PIECES;
        Codes codes = {};
        if (first + row < end)
            codes = *reinterpret_cast<const Codes *>(row_of(first + row) + piece * sizeof(Codes));
        put(row, piece, codes);
    }
}

// Eight f16 of eight e4m3 codes; exact.
__device__ __forceinline__ uint4 dequantize(uint2 codes)
{
    return make_uint4(cvt_f16x2_e4m3x2(static_cast<unsigned short>(codes.x)),
                      cvt_f16x2_e4m3x2(static_cast<unsigned short>(codes.x >> 16)),
                      cvt_f16x2_e4m3x2(static_cast<unsigned short>(codes.y)),
                      cvt_f16x2_e4m3x2(static_cast<unsigned short>(codes.y >> 16)));
}

// Rows in chunks of 16 bytes, the rows that an ldmatrix reads. The 32 banks are 128 bytes wide, so the same chunk of eight
// rows lies in one and the same group of banks (of 64-byte rows, in two); XOR with the row's number gives each row another:
//
//   128-byte rows  row 0: 0 1 2 3 4 5 6 7       64-byte rows  rows 0, 1: 0 1 2 3 | 0 1 2 3
//                  row 1: 1 0 3 2 5 4 7 6                     rows 2, 3: 1 0 3 2 | 1 0 3 2
//                  row 2: 2 3 0 1 6 7 4 5                     rows 4, 5: 2 3 0 1 | 2 3 0 1
//
// Rows of 96 bytes need less: chunk c of rows 0 … 3 lies at c, c + 6, c + 4, c + 2 of the eight places, and that of rows 4 … 7 at
// the same again. Exchanging neighboring chunks there moves them to the other four.
template <unsigned ROWS, unsigned BYTES> struct __align__(128) SwizzledTile {
    static constexpr unsigned CHUNKS = BYTES / 16;
    static_assert(BYTES == 64 || BYTES == 96 || BYTES % 128 == 0, "a row is a half or three quarters of the banks, or all of them");
    unsigned char bytes[ROWS][BYTES];

    static __device__ __forceinline__ unsigned offset(unsigned row, unsigned chunk)
    {
        const unsigned turn = BYTES == 64 ? row >> 1 & 3 : BYTES == 96 ? row >> 2 & 1 : row & 7;
        const unsigned place = USE_SMEM_SWIZZLE_XOR ? chunk ^ turn : chunk;
        return row * BYTES + place * 16;
    }
    __device__ __forceinline__ uint4 *chunk(unsigned row, unsigned chunk)
    {
        return reinterpret_cast<uint4 *>(&bytes[0][0] + offset(row, chunk));
    }
    // The shared address of that chunk `down` rows further down, a multiple of eight: the swizzle is the same there, and what
    // is added is a constant of the instruction, where the address of each row would take a register.
    __device__ __forceinline__ unsigned address(unsigned row, unsigned chunk, unsigned down = 0) const
    {
        return shared_address(bytes) + offset(row, chunk) + down * BYTES;
    }
};
