// Each pair of warps has a barrier of its own; the numbers start at 15, so the second pair uses 16. A block has
// barriers 0 … 15. Hardware stops with "illegal instruction".
//@launch: kernel=pairs grid=1 block=128 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[128]

extern "C" __global__ void pairs(const float *in, float *out)
{
    __shared__ float tile[128];
    unsigned t = threadIdx.x, barrier = 15 + t / 64;
    tile[t] = in[t];
    asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory"); //~ barrier
    out[t] = tile[t ^ 32];
}
