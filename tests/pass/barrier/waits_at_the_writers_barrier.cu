// Warps 2 and 3 write a tile for warps 0 and 1, which wait at the barrier that the writers come to behind the write.
// Result: out[i] = in[i + 64] for i < 64, else 0
//@launch: kernel=hand_over grid=1 block=128 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[128]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    if (t < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        asm volatile("bar.sync 2, 128;" ::: "memory");
        out[t] = tile[t];
    } else {
        tile[t - 64] = in[t];
        asm volatile("bar.sync 2, 128;" ::: "memory");
        out[t] = 0;
    }
}
