// Asynchronous copies that arrive on an mbarrier when they are done: whoever waits for its phase sees all of
// them.
// Result: out[i] = in[127 - i], in vectors of four
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void reverse(const float4 *in, float4 *out)
{
    __shared__ float4 tile[128];
    __shared__ unsigned long long arrived;
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]), barrier = __cvta_generic_to_shared(&arrived);
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(barrier) : "memory");
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
    out[t] = tile[127 - t];
}
