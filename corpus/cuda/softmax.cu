// Softmax over rows by warp shuffles: one warp per row, and an online variant that reads its row once.
// Result: out[r][c] = exp(in[r][c] - max of row) / sum of the row's exponentials
//@arch: 75+
//@launch: kernel=softmax_warp grid=4 block=128 arg=in:f32[2000]=randn(seed=0) arg=out:f32[2000] arg=rows:u32=16 arg=columns:u32=125
//@launch: kernel=softmax_online grid=4 block=128 arg=in:f32[2000]=randn(seed=1) arg=out:f32[2000] arg=rows:u32=16 arg=columns:u32=125

#define INF __int_as_float(0x7f800000)

extern "C" __global__ void softmax_warp(const float *in, float *out, unsigned rows, unsigned columns)
{
    unsigned lane = threadIdx.x % 32, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows)
        return;
    in += row * columns;
    out += row * columns;
    float top = -INF;
    for (unsigned c = lane; c < columns; c += 32)
        top = fmaxf(top, in[c]);
    for (int mask = 16; mask > 0; mask /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, mask));
    float sum = 0.0f;
    for (unsigned c = lane; c < columns; c += 32) {
        float e = __expf(in[c] - top);
        out[c] = e;
        sum += e;
    }
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    for (unsigned c = lane; c < columns; c += 32)
        out[c] = out[c] / sum;
}

extern "C" __global__ void softmax_online(const float *in, float *out, unsigned rows, unsigned columns)
{
    unsigned lane = threadIdx.x % 32, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows)
        return;
    in += row * columns;
    out += row * columns;
    // (top, sum) of this lane; a larger element rescales the sum found so far.
    float top = -INF, sum = 0.0f;
    for (unsigned c = lane; c < columns; c += 32) {
        float x = in[c], larger = fmaxf(top, x);
        sum = sum * __expf(top - larger) + __expf(x - larger);
        top = larger;
    }
    for (int mask = 16; mask > 0; mask /= 2) {
        float other_top = __shfl_xor_sync(0xffffffff, top, mask);
        float other_sum = __shfl_xor_sync(0xffffffff, sum, mask);
        float larger = fmaxf(top, other_top);
        // A lane without elements has top = -inf; -inf - -inf must not become NaN.
        float scale = top == -INF ? 0.0f : __expf(top - larger);
        float other_scale = other_top == -INF ? 0.0f : __expf(other_top - larger);
        sum = sum * scale + other_sum * other_scale;
        top = larger;
    }
    float inverse = __frcp_rn(sum);
    for (unsigned c = lane; c < columns; c += 32)
        out[c] = __expf(in[c] - top) * inverse;
}
