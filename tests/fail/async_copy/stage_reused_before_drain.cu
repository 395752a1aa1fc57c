// Sums four tiles that two stages fetch in turn, one tile further than needed, and passes the sums on through a
// stage. The epilogue stores them before the last group is waited for: the late copy overwrites the sums.
// Corpus: a14
//@launch: kernel=sum_tiles grid=1 block=128 arg=in:in:f32[640x4]=randn(seed=0) arg=out:out:f32[128] arg=tiles:i32=4

extern "C" __global__ void sum_tiles(const float4 *in, float *out, int tiles)
{
    __shared__ float4 stage[2][128];
    unsigned t = threadIdx.x, slot = __cvta_generic_to_shared(&stage[0][t]);
    float sum = 0.0f;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[t]) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int k = 0; k < tiles; k++) {
        const float4 *tile = &in[(k + 1) * 128 + t];
        slot = __cvta_generic_to_shared(&stage[(k + 1) % 2][t]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(tile) : "memory"); //~ async-copy
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory"); //~ async-copy
        __syncthreads();
        sum += stage[k % 2][127 - t].x;
        __syncthreads();
    }
    stage[tiles % 2][t].x = sum; //~ async-copy
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = stage[tiles % 2][127 - t].x;
}
