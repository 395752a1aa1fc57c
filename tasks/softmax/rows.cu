// Softmax over the rows of a matrix: one block for each row, three passes over it.
//
// THREADS threads stride over the m columns of row blockIdx.x; FUSED keeps a running maximum and sum instead of two passes.
#ifndef THREADS
#define THREADS 128
#endif
#ifndef FUSED
#define FUSED 0
#endif

static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps");

struct SharedStorage {
    float maximum[THREADS / 32];
    float sum[THREADS / 32];
};

// -inf, the maximum of nothing.
__device__ float lowest() { return __int_as_float(0xff800000); }

// A maximum and the sum of exponentials relative to it.
struct Partial {
    float maximum;
    float sum;
};

__device__ Partial merge(Partial a, Partial b) {
    const float maximum = fmaxf(a.maximum, b.maximum);
    // Of two empty parts the maximum is -inf, and -inf - -inf is not a number.
    if (maximum == lowest()) return {maximum, 0.0f};
    return {maximum, a.sum * expf(a.maximum - maximum) + b.sum * expf(b.maximum - maximum)};
}

__device__ Partial warp_merge(Partial part) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const Partial other = {__shfl_xor_sync(0xffffffffu, part.maximum, lanes),
                               __shfl_xor_sync(0xffffffffu, part.sum, lanes)};
        part = merge(part, other);
    }
    return part;
}

// The same in every thread.
__device__ Partial block_merge(Partial part, SharedStorage& shared) {
    part = warp_merge(part);
    if (threadIdx.x % 32 == 0) {
        shared.maximum[threadIdx.x / 32] = part.maximum;
        shared.sum[threadIdx.x / 32] = part.sum;
    }
    __syncthreads();
    Partial all = {lowest(), 0.0f};
    for (int warp = 0; warp < THREADS / 32; ++warp) all = merge(all, {shared.maximum[warp], shared.sum[warp]});
    // What was read here may be overwritten by the next call.
    __syncthreads();
    return all;
}

extern "C" __global__ void softmax_rows(const float* x, float* y, unsigned m) {
    __shared__ SharedStorage shared;
    const float* from = x + static_cast<size_t>(blockIdx.x) * m;
    float* to = y + static_cast<size_t>(blockIdx.x) * m;

    Partial part = {lowest(), 0.0f};
#if FUSED
    for (unsigned column = threadIdx.x; column < m; column += THREADS) part = merge(part, {from[column], 1.0f});
    const Partial all = block_merge(part, shared);
#else
    for (unsigned column = threadIdx.x; column < m; column += THREADS) part.maximum = fmaxf(part.maximum, from[column]);
    const float maximum = block_merge(part, shared).maximum;
    part = {maximum, 0.0f};
    for (unsigned column = threadIdx.x; column < m; column += THREADS) part.sum += expf(from[column] - maximum);
    const Partial all = block_merge(part, shared);
#endif
    const float scale = 1.0f / all.sum;
    for (unsigned column = threadIdx.x; column < m; column += THREADS) to[column] = expf(from[column] - all.maximum) * scale;
}
