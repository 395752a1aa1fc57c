// Warps 0 and 1 fill a tile and meet at a named barrier of 64 threads; warp 2 reads the tile too, but takes no
// part in the barrier. It reads slots that are not stored yet.
// Corpus: r12
//@launch: kernel=broadcast grid=1 block=96 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[96]

extern "C" __global__ void broadcast(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    if (t < 64) {
        tile[t] = in[t]; //~ shared-race
        asm volatile("bar.sync 1, 64;" ::: "memory");
    }
    out[t] = tile[t % 64]; //~ shared-race
}
