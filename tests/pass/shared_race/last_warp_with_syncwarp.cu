// Sum of 64 elements by a tree in shared memory. The last warp reads, synchronizes, writes, synchronizes.
// Result: out[0] = sum of in
// Corpus: r08
//@launch: kernel=sum grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[1]

extern "C" __global__ void sum(const float *in, float *out)
{
    __shared__ volatile float partial[64];
    unsigned t = threadIdx.x;
    partial[t] = in[t];
    __syncthreads();
    if (t < 32) {
        for (int distance = 32; distance > 0; distance /= 2) {
            float both = partial[t] + partial[t + distance];
            __syncwarp();
            partial[t] = both;
            __syncwarp();
        }
    }
    if (t == 0)
        out[0] = partial[0];
}
