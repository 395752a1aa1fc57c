// Warps 2 and 3 write a tile for warps 0 and 1. The readers wait at barrier 1, which the writers never come to, and then at
// barrier 2, which the writers come to before they write: the readers are one barrier ahead.
//@launch: kernel=hand_over grid=1 block=128 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[128]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    if (t < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory"); //~ barrier
        out[t] = tile[t];                             //~ barrier
        asm volatile("bar.sync 2, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 128;" ::: "memory"); //~ barrier
        tile[t - 64] = in[t];                          //~ barrier
        out[t] = 0;
    }
}
