// Both arms of a branch hold a `barrier.sync`, and odd and even lanes of every warp part there. It is legal: without
// `.aligned` a barrier is counted by threads.
// Corpus: s08
//@launch: kernel=swap_neighbors grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void swap_neighbors(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    if (t % 2) {
        asm volatile("barrier.sync 0; // odd lanes" ::: "memory");
        out[t] = tile[t ^ 1] * 2.0f;
    } else {
        asm volatile("barrier.sync 0; // even lanes" ::: "memory");
        out[t] = tile[t ^ 1] * 3.0f;
    }
}
