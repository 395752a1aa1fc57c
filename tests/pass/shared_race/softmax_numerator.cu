// First half of a softmax over 256 elements: each warp's maximum goes through shared memory, behind a barrier.
// Result: out[i] = exp(in[i] - max of in)
// Corpus: r04
//@launch: kernel=numerator grid=1 block=256 arg=in:in:f32[256]=randn(seed=0) arg=out:out:f32[256]

extern "C" __global__ void numerator(const float *in, float *out)
{
    __shared__ float warp_max[8];
    unsigned t = threadIdx.x;
    float value = in[t], top = value;
    for (int mask = 16; mask > 0; mask /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, mask));
    if (t % 32 == 0)
        warp_max[t / 32] = top;
    __syncthreads();
    for (int warp = 0; warp < 8; warp++)
        top = fmaxf(top, warp_max[warp]);
    out[t] = __expf(value - top);
}
