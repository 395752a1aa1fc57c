// Warps 0 and 1 fill a tile which warp 2 reads too, so all three meet at the barrier.
// Result: out[i] = in[i % 64]
// Corpus: r12
//@launch: kernel=broadcast grid=1 block=96 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[96]

extern "C" __global__ void broadcast(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    if (t < 64) {
        tile[t] = in[t];
    }
    asm volatile("bar.sync 1, 96;" ::: "memory");
    out[t] = tile[t % 64];
}
