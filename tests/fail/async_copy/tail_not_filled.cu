// Reverses a tile of which only the first 100 vectors exist. The threads of the tail issue no copy and nothing
// clears their slots: what shared memory held before goes to the output.
// Corpus: a09
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[100x4]=randn(seed=0) arg=out:out:f32[128x4] arg=n:u32=100

extern "C" __global__ void reverse(const float4 *in, float4 *out, unsigned n)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    if (t < n)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t]; //~ uninitialized
}
