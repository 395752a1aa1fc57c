// Warp 0 hands 32 elements to warp 1: the producer arrives on barrier 1, the consumer waits on it.
// Result: out[i] = in[i]
// Corpus: r11
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        tile[lane] = in[lane];
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[lane] = tile[lane];
    }
}
