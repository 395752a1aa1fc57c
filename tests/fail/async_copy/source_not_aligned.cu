// Copies vectors of four floats that begin at the third float of a row. Their addresses are multiples of 8, but
// a copy of 16 bytes needs multiples of 16: on hardware the kernel stops with a misaligned address.
// Corpus: a08
//@launch: kernel=shift grid=1 block=128 arg=in:in:f32[516]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void shift(const float *in, float4 *out)
{
    __shared__ float4 tile[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&tile[t]);
    const float *source = &in[4 * t + 2];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(source) : "memory"); //~ alignment
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = tile[127 - t];
}
