// Who holds what of a matrix instruction. Lane l is (g, t) = (l / 4, l % 4): eight groups of four lanes.
//
//   Accumulator C, D of m16n8 (f32)          A of m16n8k32 (8-bit; of k16 with 16-bit elements, halve the columns)
//
//            column 2t  2t+1                          columns 4t…4t+3   16+4t…16+4t+3
//   row g        c[0]  c[1]                  row g         a[0]              a[2]
//   row g+8      c[2]  c[3]                  row g+8       a[1]              a[3]
//
//   B of m16n8k32: b0 holds rows 4t…4t+3, b1 rows 16+4t…16+4t+3, both of column g.
//
// P from accumulators. Two adjacent score tiles n, n+1 (8 keys each) give lane t the keys 2t, 2t+1 and 8+2t, 8+2t+1 of a
// group of 16; packed as four bytes they are one A register. Its key order {2t, 2t+1, 8+2t, 9+2t} is not the B operand's
// 4t…4t+3, but any order will do as long as V uses the same one, and it does:
//
// V without a transpose pass. `ldmatrix.trans` on row-major 8-bit V moves pairs of columns: lane (g, t) gets, of matrix rows
// 2t and 2t+1 (keys), the two columns 2g and 2g+1. With x0 from keys 0–7 and x1 from keys 8–15 of a group of 16,
// prmt(x0, x1, 0x6420) is column 2g of keys {2t, 2t+1, 8+2t, 9+2t}, and 0x7531 is column 2g+1 of the same.
// So accumulator tile `even` holds the columns 2·(column of n8) and `odd` those + 1: lane t has four neighbors 4t…4t+3.
#pragma once

struct Lane {
    unsigned lane, g, t;
    __device__ __forceinline__ Lane() : Lane(threadIdx.x) {}
    __device__ __forceinline__ explicit Lane(unsigned thread) : lane(thread % 32), g(lane / 4), t(lane % 4) {}

    // Row of accumulator element i.
    __device__ __forceinline__ unsigned row(unsigned i) const { return g + i / 2 * 8; }
    // Column of accumulator element i.
    __device__ __forceinline__ unsigned col(unsigned i) const { return 2 * t + i % 2; }
};

// The row's value from all four lanes that hold a row.
__device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ __forceinline__ float quad_sum(float x)
{
    x = __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, 1));
    return __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, 2));
}

// All 32 lanes, from near to far: the order is part of the arithmetic.
__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    return x;
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2)
        x = __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, step));
    return x;
}
