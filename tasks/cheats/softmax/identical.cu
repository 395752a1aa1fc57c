// The very program of honest.cu: comments and the names of variables are no part of a program.
constexpr unsigned THREADS = 128;
constexpr unsigned WARPS = THREADS / 32;

// The sum, or the maximum, over a block, the same in every thread.
template <bool MAXIMUM> __device__ float over_block(float value, float* shared) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, lanes);
        value = MAXIMUM ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
    for (unsigned warp = 1; warp < WARPS; ++warp) value = MAXIMUM ? fmaxf(value, shared[warp]) : value + shared[warp];
    return value;
}

extern "C" __global__ void softmax_rows(const float* x, float* y, unsigned m) {
    __shared__ float maxima[WARPS];
    __shared__ float sums[WARPS];
    const float* from = x + static_cast<size_t>(blockIdx.x) * m;
    float* to = y + static_cast<size_t>(blockIdx.x) * m;
    float largest = __int_as_float(0xff800000);
    for (unsigned column = threadIdx.x; column < m; column += THREADS) largest = fmaxf(largest, from[column]);
    largest = over_block<true>(largest, maxima);
    float total = 0.0f;
    for (unsigned column = threadIdx.x; column < m; column += THREADS) total += expf(from[column] - largest);
    total = over_block<false>(total, sums);
    for (unsigned column = threadIdx.x; column < m; column += THREADS) to[column] = expf(from[column] - largest) / total;
}
