// Both arms of a branch hold a `bar.sync`, and whole warps part there: each warp comes to one of them, which is legal.
// Corpus: s08
//@launch: kernel=swap_neighbors grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void swap_neighbors(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    if (t < 32) {
        asm volatile("bar.sync 0; // first warp" ::: "memory");
        out[t] = tile[t ^ 1] * 2.0f;
    } else {
        asm volatile("bar.sync 0; // second warp" ::: "memory");
        out[t] = tile[t ^ 1] * 3.0f;
    }
}
