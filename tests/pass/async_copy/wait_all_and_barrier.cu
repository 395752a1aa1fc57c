// Reverses 128 vectors through shared memory with asynchronous copies. cp.async.wait_all needs no commit; the
// barrier makes each thread's copies visible to the others.
// Result: out[i] = in[127 - i], in vectors of four
// Corpus: a02
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void reverse(const float4 *in, float4 *out)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t];
}
