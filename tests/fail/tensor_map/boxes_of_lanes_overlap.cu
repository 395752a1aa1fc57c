// Every lane of a warp stores a box that is one row further than that of its neighbor: three of its four rows overlap.
//@arch: 90a
//@launch: kernel=twice grid=1 block=128 arg=in:in:f32[4x32]=iota arg=out:out:f32[35x32] arg=map:map(out, box=4x32)

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
        int row = threadIdx.x;
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&map), "r"(0), "r"(row), "r"(shared(tile)) : "memory"); //~ global-race
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
