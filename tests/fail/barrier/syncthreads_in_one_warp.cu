// The first warp comes to a __syncthreads() that the second does not reach: it waits at a named barrier for the first.
// Hardware hangs.
//@launch: kernel=reverse grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void reverse(const float *in, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    if (t < 32)
        __syncthreads(); //~ deadlock
    float value = tile[t];
    asm volatile("bar.sync 1, 64;" ::: "memory"); //~ deadlock
    out[t] = value + tile[63 - t];
}
