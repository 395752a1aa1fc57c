// Threads beyond the data return before the barrier, which since Volta counts the threads that are left.
// Result: out[i] = in[99 - i]
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[100]=randn(seed=0) arg=out:out:f32[100] arg=n:u32=100

extern "C" __global__ void reverse(const float *in, float *out, unsigned n)
{
    __shared__ float tile[128];
    unsigned t = threadIdx.x;
    if (t >= n)
        return;
    tile[t] = in[t];
    __syncthreads();
    out[t] = tile[n - 1 - t];
}
