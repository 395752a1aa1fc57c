// Both warps come to the __syncthreads(), and then to the named barrier.
//@launch: kernel=reverse grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void reverse(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    float value = tile[t ^ 1];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[t] = value + tile[63 - t];
}
