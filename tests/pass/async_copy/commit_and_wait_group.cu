// Reverses 128 vectors through shared memory with asynchronous copies of 8 bytes, two to a group.
// Result: out[i] = in[127 - i], in vectors of four
// Corpus: a04
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void reverse(const float4 *in, float4 *out)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(slot), "l"(&in[t].x) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(slot + 8), "l"(&in[t].z) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t];
}
