// All lanes of a warp store the same box, as the epilogues of CUTLASS do: one store for the warp.
//@arch: 90a
//@launch: kernel=twice grid=1 block=128 arg=in:in:f32[4x32]=iota arg=out:out:f32[4x32] arg=map:map(out, box=4x32)

struct __align__(64) TensorMap {
    unsigned long long opaque[16];
};

__device__ unsigned shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void twice(const float *in, float *, const __grid_constant__ TensorMap map)
{
    __shared__ __align__(128) float tile[4 * 32];
    tile[threadIdx.x] = 2 * in[threadIdx.x];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < 32) {
        int row = 0;
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&map), "r"(0), "r"(row), "r"(shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
