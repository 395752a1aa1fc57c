// Each pair of warps has a barrier of its own, with the numbers 14 and 15.
//@launch: kernel=pairs grid=1 block=128 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[128]

extern "C" __global__ void pairs(const float *in, float *out)
{
    __shared__ float tile[128];
    unsigned t = threadIdx.x, barrier = 14 + t / 64;
    tile[t] = in[t];
    asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory");
    out[t] = tile[t ^ 32];
}
