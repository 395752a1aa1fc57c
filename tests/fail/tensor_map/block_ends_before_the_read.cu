// The block ends while the tensor copy may still read its shared memory.
//@arch: 90a
//@launch: kernel=twice grid=1 block=128 arg=in:in:f32[4x32]=iota arg=out:out:f32[4x32] arg=map:map(out, box=4x32)

struct __align__(64) TensorMap {
    unsigned long long opaque[16];
};

__device__ unsigned shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void store(const TensorMap *map, int x, int y, const void *tile)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(map), "r"(x), "r"(y), "r"(shared(tile)) : "memory"); //~ async-copy
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

extern "C" __global__ void twice(const float *in, float *, const __grid_constant__ TensorMap map)
{
    __shared__ __align__(128) float tile[4 * 32];
    tile[threadIdx.x] = 2 * in[threadIdx.x];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        store(&map, 0, 0, tile);
    }
}
