// Layer normalization of rows of 96 elements, one block per row; mean and variance go through the same two
// slots.
// Result: out[r][c] = (in[r][c] - mean) / sqrt(variance + 1e-5) * gamma[c] + beta[c]
//@launch: kernel=layer_norm grid=4 block=96 arg=in:in:f32[4x96]=randn(seed=0) arg=gamma:in:f32[96]=uniform(0.5,1.5,seed=1) arg=beta:in:f32[96]=randn(seed=2) arg=out:out:f32[4x96]

// Sum over the block's three warps; the leading barrier protects the slots from the call before.
__device__ float block_sum(float value)
{
    __shared__ float of_warp[3];
    for (int mask = 16; mask > 0; mask /= 2)
        value += __shfl_xor_sync(0xffffffff, value, mask);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    return of_warp[0] + of_warp[1] + of_warp[2];
}

extern "C" __global__ void layer_norm(const float *in, const float *gamma, const float *beta, float *out)
{
    unsigned c = threadIdx.x, i = blockIdx.x * 96 + c;
    float mean = block_sum(in[i]) / 96.0f;
    float centered = in[i] - mean;
    float variance = block_sum(centered * centered) / 96.0f;
    out[i] = centered * rsqrtf(variance + 1e-5f) * gamma[c] + beta[c];
}
