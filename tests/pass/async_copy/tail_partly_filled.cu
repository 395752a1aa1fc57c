// Reverses a tile of which only the first 399 floats exist. Each copy reads as many bytes as there are and
// fills the rest of its 16 with zeros; source addresses never leave the array.
// Result: out[i] = in[127 - i], in vectors of four, with zeros behind the end of in
// Corpus: a10
//@launch: kernel=reverse grid=1 block=128 arg=in:in:f32[399]=randn(seed=0) arg=out:out:f32[128x4] arg=n:u32=399

extern "C" __global__ void reverse(const float4 *in, float4 *out, unsigned n)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    unsigned bytes = 4 * t < n ? min(16, 4 * (n - 4 * t)) : 0;
    const float4 *source = bytes > 0 ? &in[t] : in;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(slot), "l"(source), "r"(bytes) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t];
}
