// Threads write to a scratch array and, behind a barrier, copy what the other warp wrote there into shared memory.
//@launch: kernel=exchange grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=scratch:inout:f32[64]=zeros arg=out:out:f32[64]

extern "C" __global__ void exchange(const float *in, float *scratch, float *out)
{
    __shared__ float tile[64];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    scratch[t] = in[t];
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(slot), "l"(&scratch[t ^ 32]) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[t] = tile[63 - t];
}
