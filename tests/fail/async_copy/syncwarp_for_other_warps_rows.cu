// Each warp copies 32 rows and then works on the rows of the next warp. It waits for its own copies and
// synchronizes with itself, which says nothing about the other warp's copies: their rows may not have arrived.
// Corpus: a16
//@launch: kernel=rotate grid=1 block=128 arg=in:in:f32[128x4]=randn(seed=0) arg=out:out:f32[128x4]

extern "C" __global__ void rotate(const float4 *in, float4 *out)
{
    __shared__ float4 rows[128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&rows[t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory"); //~ async-copy
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncwarp();
    out[t] = rows[(t + 32) % 128]; //~ async-copy
}
