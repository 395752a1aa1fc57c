// One buffer for two tiles: the second is written while the tensor copy may still read the first.
//@arch: 90a
//@launch: kernel=rows grid=1 block=128 arg=in:in:f32[8x32]=iota arg=out:out:f32[8x32] arg=map:map(out, box=4x32)

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

extern "C" __global__ void rows(const float *in, float *, const __grid_constant__ TensorMap map)
{
    __shared__ __align__(128) float tile[4 * 32];
    for (int half = 0; half < 2; half++) {
        tile[threadIdx.x] = in[half * 128 + threadIdx.x] + 1; //~ async-copy
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            store(&map, 0, half * 4, tile);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
