// Copies 128 vectors into shared memory and replaces the first element of each. The store does not wait for the
// copy: if the copy arrives later, it overwrites the new element.
// Corpus: a06
//@launch: kernel=replace_first grid=1 block=128 arg=in:in:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void replace_first(const float4 *in, float4 *out)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory"); //~ async-copy
    asm volatile("cp.async.commit_group;" ::: "memory");
    tile[t].x = 1.0f; //~ async-copy
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t];
}
