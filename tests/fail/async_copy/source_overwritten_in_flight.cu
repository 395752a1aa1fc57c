// Takes 128 vectors out of global memory and clears them there. The clearing does not wait for the copy, which
// reads its source at any time before the wait: it may bring zeros.
// Corpus: a07
//@launch: kernel=take grid=1 block=128 arg=queue:inout:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void take(float4 *queue, float4 *out)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&queue[t]) : "memory"); //~ async-copy
    asm volatile("cp.async.commit_group;" ::: "memory");
    queue[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f); //~ async-copy
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t];
}
