// Three warps meet at barrier 1, and all say that 96 threads take part.
//@launch: kernel=meet grid=1 block=96 arg=in:in:f32[96]=randn(seed=0) arg=out:out:f32[96]

extern "C" __global__ void meet(const float *in, float *out)
{
    __shared__ float tile[96];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    if (t < 32)
        asm volatile("bar.sync 1, 96;" ::: "memory");
    else
        asm volatile("bar.sync 1, 96; // the others" ::: "memory");
    out[t] = tile[t ^ 1];
}
