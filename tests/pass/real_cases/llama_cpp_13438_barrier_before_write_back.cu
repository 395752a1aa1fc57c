// After ggml-org/llama.cpp pull request 13438 (FlashAttention): two warps share the keys of 8 query columns; their
// softmax statistics (maximum, sum) are combined through shared memory by the first warp of each pair, in place.
// A barrier stands between reading the slots and writing back, for both kinds of warps.
//@launch: kernel=combine grid=1 block=128 arg=partial:in:f32[4x8x2]=uniform(0.5,2,seed=0) arg=out:out:f32[4x8]

constexpr unsigned PARALLEL = 2, COLUMNS = 8;

extern "C" __global__ void combine(const float2 *partial, float *out)
{
    __shared__ float2 statistics[4 * COLUMNS];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = warp * COLUMNS + lane;
    if (lane < COLUMNS)
        statistics[own] = partial[own];
    __syncthreads();
    if (warp % PARALLEL == 0) {
        float2 *slot = &statistics[warp * COLUMNS + lane % (PARALLEL * COLUMNS)];
        float2 s = *slot;
        float m = fmaxf(s.x, __shfl_xor_sync(0xffffffff, s.x, COLUMNS));
        float scale = __expf(s.x - m), sum = scale * s.y;
        sum += __shfl_xor_sync(0xffffffff, sum, COLUMNS);
        __syncthreads();
        if (lane < PARALLEL * COLUMNS)
            *slot = make_float2(scale, sum);
    } else {
        __syncthreads(); // the other warps' barrier in the branch above
    }
    __syncthreads();
    if (lane < COLUMNS)
        out[own] = statistics[own].x / statistics[own].y;
}
