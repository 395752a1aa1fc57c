// Two warps meet at barrier 1 with a third one. One of them says that 64 threads take part, the others say 96: all
// must say the same. The behavior is undefined; hardware opens the barrier early, or hangs.
//@launch: kernel=meet grid=1 block=96 arg=in:in:f32[96]=randn(seed=0) arg=out:out:f32[96]

extern "C" __global__ void meet(const float *in, float *out)
{
    __shared__ float tile[96];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    if (t < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory"); //~ barrier
    else
        asm volatile("bar.sync 1, 96; // the others" ::: "memory"); //~ barrier
    out[t] = tile[t ^ 1];
}
