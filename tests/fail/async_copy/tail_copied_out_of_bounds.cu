// Reverses a tile of which only the first 100 vectors exist. The tail is copied at full size as well, from
// behind the end of the array: other data, or a fault.
// Corpus: a10
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[100x4]=randn(seed=0) arg=out:out:f32[128x4] arg=n:u32=400

extern "C" __global__ void reverse(const float4 *in, float4 *out, unsigned n)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory"); //~ bounds
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    out[t] = 4 * (127 - t) < n ? tile[127 - t] : zero;
}
