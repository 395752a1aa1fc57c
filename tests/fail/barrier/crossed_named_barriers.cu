// A producer and a consumer warp: the one waits at "empty" first, the other at "full" first, and each barrier wants
// both. Hardware hangs.
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        asm volatile("bar.sync 2, 64; // empty" ::: "memory"); //~ deadlock
        tile[lane] = in[lane];
        asm volatile("bar.sync 1, 64; // full" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64; // wait for full" ::: "memory"); //~ deadlock
        out[lane] = tile[lane];
        asm volatile("bar.sync 2, 64; // say empty" ::: "memory");
    }
}
