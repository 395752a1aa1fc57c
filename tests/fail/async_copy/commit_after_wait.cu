// Sums four tiles that two stages fetch in turn. Each turn waits before it commits its prefetch, so that "all
// groups but one" leaves the tile of this turn in flight: it is read before it has arrived.
// Corpus: a15
//@launch: kernel=sum_tiles grid=1 block=128 arg=in:in:f32[640x4]=randn(seed=0) arg=out:out:f32[128] arg=tiles:i32=4

extern "C" __global__ void sum_tiles(const float4 *in, float *out, int tiles)
{
    __shared__ float4 stage[2][128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&stage[0][t]);
    float sum = 0.0f;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory"); //~ async-copy
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int k = 0; k < tiles; k++) {
        const float4 *tile = &in[(k + 1) * 128 + t];
        slot = __cvta_generic_to_shared(&stage[(k + 1) % 2][t]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(tile) : "memory"); //~ async-copy
        asm volatile("cp.async.wait_group 1;" ::: "memory"); //~ async-copy
        asm volatile("cp.async.commit_group;" ::: "memory");
        __syncthreads();
        sum += stage[k % 2][127 - t].x; //~ async-copy
        __syncthreads();
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    out[t] = sum;
}
