// After NVIDIA/cutlass issue 1326 (sm80 multistage main loop, vectorized epilogue): a two-stage cp.async loop copies
// one tile ahead, and past the end it copies the last tile again; then the epilogue exchanges results through the
// same shared memory.
// The loop ends with a wait for all copies and a barrier.
//@launch: kernel=sum_tiles grid=1 block=128 arg=in:in:f32[4x512]=randn(seed=0) arg=out:out:f32[512] arg=tiles:u32=4

#define CP_ASYNC_16(to, from)                                                                                  \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"                                                   \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")

extern "C" __global__ void sum_tiles(const float4 *in, float4 *out, unsigned tiles)
{
    __shared__ float4 stage[2][128];
    unsigned t = threadIdx.x;
    float4 sum = {};
    CP_ASYNC_16(&stage[0][t], in + t);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (unsigned k = 0; k < tiles; k++) {
        unsigned next = min(k + 1, tiles - 1);
        CP_ASYNC_16(&stage[(k + 1) % 2][t], in + next * 128 + t);
        asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        float4 v = stage[k % 2][127 - t];
        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        __syncthreads();
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    stage[tiles % 2][t] = sum;
    __syncthreads();
    out[t] = stage[tiles % 2][127 - t];
}
