// Both arms of a branch hold a `bar.sync`, and odd and even lanes of every warp part there. `bar.sync` is aligned: all
// lanes of a warp must come to the same one. The behavior is undefined; hardware counts the warp twice, or hangs.
// Corpus: s08
//@launch: kernel=swap_neighbors grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void swap_neighbors(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    if (t % 2) {
        asm volatile("bar.sync 0; // odd lanes" ::: "memory"); //~ barrier
        out[t] = tile[t ^ 1] * 2.0f;
    } else {
        asm volatile("bar.sync 0; // even lanes" ::: "memory"); //~ barrier
        out[t] = tile[t ^ 1] * 3.0f;
    }
}
