// Reverses the first n values through shared memory. The __syncthreads() stands inside `if (t < n)`, and n = 40 splits
// the second warp: 24 of its lanes never come. Hardware hangs, or lets the barrier through with part of the warp.
// Corpus: s01
//@launch: kernel=reverse grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64] arg=n:u32=40

extern "C" __global__ void reverse(const float *in, float *out, unsigned n)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    float value = in[t];
    tile[t] = value;
    if (t < n) {
        __syncthreads(); //~ barrier
        value = tile[n - 1 - t];
    }
    out[t] = value;
}
