// Two pairs of warps hand over 32 elements each: warps 0 and 1 produce, warps 2 and 3 consume, and each pair
// has a barrier of its own.
// Result: out[i] = in[i]
//@launch: kernel=hand_over grid=1 block=128 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned i = threadIdx.x % 64, pair = i / 32;
    if (threadIdx.x < 64) {
        tile[i] = in[i];
        asm volatile("bar.arrive %0, 64;" ::"r"(1 + pair) : "memory");
    } else {
        asm volatile("bar.sync %0, 64;" ::"r"(1 + pair) : "memory");
        out[i] = tile[i];
    }
}
