// A barrier for the 40 threads that have work. The count of a barrier must be a multiple of 32. The behavior is
// undefined; hardware rounds it, or stops with "illegal instruction".
//@launch: kernel=reverse grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64] arg=n:u32=40

extern "C" __global__ void reverse(const float *in, float *out, unsigned n)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    asm volatile("bar.sync 1, %0;" ::"r"(n) : "memory"); //~ barrier
    out[t] = t < n ? tile[n - 1 - t] : 0.0f;
}
