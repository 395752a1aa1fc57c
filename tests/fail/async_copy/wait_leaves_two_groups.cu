// Three tiles are fetched in a group each, and the wait before the second one is read leaves two groups in flight: the first
// tile has arrived, the second has not.
//@launch: kernel=sum_two grid=1 block=64 arg=in:in:f32[192x4]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void sum_two(const float4 *in, float *out)
{
    __shared__ float4 stage[3][64];
    unsigned t = threadIdx.x;
    for (int k = 0; k < 3; k++) {
        unsigned slot = __cvta_generic_to_shared(&stage[k][t]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(&in[64 * k + t]) : "memory"); //~ async-copy
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 2;" ::: "memory"); //~ async-copy
    __syncthreads();
    float sum = stage[0][63 - t].x;
    sum += stage[1][63 - t].x; //~ async-copy
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    out[t] = sum;
}
