// Reverses 128 vectors through shared memory with asynchronous copies. They are never committed to a group, so
// that waiting for all groups waits for nothing, and the reads get what the memory held before.
// Corpus: a04
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void reverse(const float4 *in, float4 *out)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(slot), "l"(&in[t].x) : "memory"); //~ async-copy
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(slot + 8), "l"(&in[t].z) : "memory"); //~ async-copy
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t]; //~ async-copy
}
