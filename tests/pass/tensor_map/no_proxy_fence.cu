// Every thread that writes the tile executes fence.proxy.async before the barrier.
//@arch: 90a
//@launch: kernel=twice grid=1 block=128 arg=in:in:f32[16x32]=iota arg=out:out:f32[16x32] arg=map:map(out, box=16x32)

struct __align__(64) TensorMap {
    unsigned long long opaque[16];
};

__device__ unsigned shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void store(const TensorMap *map, int x, int y, const void *tile)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(map), "r"(x), "r"(y), "r"(shared(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

extern "C" __global__ void twice(const float *in, float *, const __grid_constant__ TensorMap map)
{
    __shared__ __align__(128) float tile[16 * 32];
    for (unsigned i = threadIdx.x; i < 16 * 32; i += 128)
        tile[i] = 2 * in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        store(&map, 0, 0, tile);
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
