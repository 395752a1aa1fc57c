// A barrier for the two warps that hold the 40 threads with work.
//@launch: kernel=reverse grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64] arg=n:u32=40

extern "C" __global__ void reverse(const float *in, float *out, unsigned n)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    asm volatile("bar.sync 1, %0;" ::"r"((n + 31) / 32 * 32) : "memory");
    out[t] = t < n ? tile[n - 1 - t] : 0.0f;
}
