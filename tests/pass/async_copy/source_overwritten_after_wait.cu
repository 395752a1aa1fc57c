// Takes 128 vectors out of global memory, waits, and then clears them there.
// Result: out[i] = the old queue[127 - i], in vectors of four; queue = 0
// Corpus: a07
//@launch: kernel=take grid=1 block=128 arg=queue:inout:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void take(float4 *queue, float4 *out)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&queue[t]) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    queue[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();
    out[t] = tile[127 - t];
}
