// Softmax of rows of 200 elements, one block of four warps per row, with one buffer for maxima and one for
// sums.
// Result: out[r][c] = exp(in[r][c] - max of row r) / sum of the row's exponentials
//@launch: kernel=softmax grid=3 block=128 arg=in:in:f32[3x200]=randn(seed=0) arg=out:out:f32[3x200] arg=columns:u32=200

extern "C" __global__ void softmax(const float *in, float *out, unsigned columns)
{
    __shared__ float maxima[4], sums[4];
    unsigned t = threadIdx.x;
    in += blockIdx.x * columns;
    out += blockIdx.x * columns;
    float top = __int_as_float(0xff800000);
    for (unsigned c = t; c < columns; c += 128)
        top = fmaxf(top, in[c]);
    for (int mask = 16; mask > 0; mask /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, mask));
    if (t % 32 == 0)
        maxima[t / 32] = top;
    __syncthreads();
    top = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
    float sum = 0.0f;
    for (unsigned c = t; c < columns; c += 128) {
        float e = __expf(in[c] - top);
        out[c] = e;
        sum += e;
    }
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    if (t % 32 == 0)
        sums[t / 32] = sum;
    __syncthreads();
    sum = sums[0] + sums[1] + sums[2] + sums[3];
    for (unsigned c = t; c < columns; c += 128)
        out[c] /= sum;
}
