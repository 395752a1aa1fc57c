// A producer and a consumer warp; both come to "full" first and to "empty" second.
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        tile[lane] = in[lane];
        asm volatile("bar.sync 1, 64; // full" ::: "memory");
        asm volatile("bar.sync 2, 64; // empty" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64; // wait for full" ::: "memory");
        out[lane] = tile[lane];
        asm volatile("bar.sync 2, 64; // say empty" ::: "memory");
    }
}
