// One step of the online softmax of a row. Scores are in powers of two: y = score · scale · log2(e).
#pragma once
#include "ptx.cuh"

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

struct Softmax {
    float maximum = -infinity();
    float sum = 0.0f; // of this lane's share of the row
    // What the running maximum is replaced by where no key was seen: -inf minus -inf is no number.
    __device__ __forceinline__ float origin() const { return maximum == -infinity() ? 0.0f : maximum; }

    // Takes the tile's maximum; returns the factor of everything summed so far.
    __device__ __forceinline__ float raise(float tile_maximum)
    {
        float before = maximum;
        maximum = fmaxf(maximum, tile_maximum);
        return ex2(__fsub_rn(before, origin()));
    }
};

// 1 / sum, or 0 for a row that saw no key.
__device__ __forceinline__ float reciprocal(float sum) { return sum == 0.0f ? 0.0f : __frcp_rn(sum); }

// The natural logarithm of a row's sum of exponentials; `shift` is the power of two that the sum carries.
__device__ __forceinline__ float log_sum(float origin, float sum, float shift)
{
    if (sum == 0.0f)
        return -infinity();
    float y = __fadd_rn(origin, lg2(sum));
    if (shift != 0.0f)
        y = __fsub_rn(y, shift);
    return __fmul_rn(y, 0.69314718f);
}
