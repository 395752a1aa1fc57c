// Softmax over 256 elements. One buffer holds each warp's maximum and then each warp's sum. A fast warp stores
// its sum while slower warps still read the maxima, so they take a sum for a maximum.
// Corpus: r05
//@launch: kernel=softmax grid=1 block=256 arg=in:in:f32[256]=randn(seed=0) arg=out:out:f32[256]

extern "C" __global__ void softmax(const float *in, float *out)
{
    __shared__ float of_warp[8];
    unsigned t = threadIdx.x;
    float top = in[t];
    for (int mask = 16; mask > 0; mask /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, mask));
    if (t % 32 == 0)
        of_warp[t / 32] = top;
    __syncthreads();
    for (int warp = 0; warp < 8; warp++)
        top = fmaxf(top, of_warp[warp]); //~ shared-race
    float e = __expf(in[t] - top), sum = e;
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    if (t % 32 == 0)
        of_warp[t / 32] = sum; //~ shared-race
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < 8; warp++)
        total += of_warp[warp];
    out[t] = e / total;
}
