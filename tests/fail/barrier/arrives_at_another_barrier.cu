// The writer arrives at barrier 2, and the reader waits at barrier 1 for both warps, at which two warps come together that have
// nothing to hand over. The tile is written behind the barrier that it should have come before.
//@launch: kernel=hand_over grid=1 block=96 arg=in:in:f32[96]=randn(seed=0) arg=out:out:f32[96]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned t = threadIdx.x, lane = t % 32;
    if (t < 32) {
        asm volatile("bar.sync 1, 64;" ::: "memory"); //~ barrier
        out[t] = tile[lane];                          //~ barrier
        asm volatile("bar.sync 2, 64;" ::: "memory");
    } else if (t < 64) {
        asm volatile("bar.sync 2, 64;" ::: "memory"); //~ barrier
        tile[lane] = in[t];                           //~ barrier
        out[t] = 0;
    } else {
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        out[t] = 0;
    }
}
