// Four-stage pipeline of 16-byte copies without empty groups: the last turns wait for 2, 1 and 0 groups; then a
// stage is reused for the result.
// Result: out[i] = sum over k of the vectors in[k][63 - i], reversed once more
//@launch: kernel=sum_tiles grid=1 block=64 arg=in:in:f32[5x64x4]=randn(seed=0) arg=out:out:f32[64x4] arg=tiles:i32=5

__device__ void fetch(float4 *to, const float4 *from)
{
    unsigned slot = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `in_flight` groups of this thread are under way.
__device__ void wait_group(int in_flight)
{
    switch (in_flight) {
    case 0: asm volatile("cp.async.wait_group 0;" ::: "memory"); break;
    case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
    default: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
    }
}

extern "C" __global__ void sum_tiles(const float4 *in, float4 *out, int tiles)
{
    __shared__ float4 stage[4][64];
    unsigned t = threadIdx.x;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < 3; k++)
        fetch(&stage[k][t], &in[k * 64 + t]);
    for (int k = 0; k < tiles; k++) {
        wait_group(min(2, tiles - 1 - k));
        __syncthreads();
        if (k + 3 < tiles)
            fetch(&stage[(k + 3) % 4][t], &in[(k + 3) * 64 + t]);
        float4 value = stage[k % 4][63 - t];
        sum = make_float4(sum.x + value.x, sum.y + value.y, sum.z + value.z, sum.w + value.w);
    }
    __syncthreads();
    stage[0][t] = sum;
    __syncthreads();
    out[t] = stage[0][63 - t];
}
