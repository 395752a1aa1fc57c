// A map in global memory gets another address; the copy may still use the old one.
//@arch: 90a
//@launch: kernel=second grid=1 block=32 arg=a:in:f32[4x32]=iota arg=b:in:f32[4x32]=ones arg=out:out:f32[128] arg=map:map(a, box=4x32) arg=space:scratch:u64[16]

struct __align__(64) TensorMap {
    unsigned long long opaque[16];
};

__device__ unsigned shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void init(void *barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ void expect(void *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(barrier)), "r"(bytes) : "memory");
}

__device__ void wait(void *barrier, int parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared(barrier)), "r"(parity) : "memory");
}

__device__ void load(void *tile, const TensorMap *map, int x, int y, void *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(tile)), "l"(map), "r"(x), "r"(y), "r"(shared(barrier)) : "memory"); //~ tensor-map
}

extern "C" __global__ void second(const float *, const float *b, float *out, const __grid_constant__ TensorMap map, TensorMap *space)
{
    __shared__ __align__(128) float tile[4 * 32];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        init(&full);
        *space = map;
        asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(space), "l"(b) : "memory"); //~ tensor-map
        expect(&full, sizeof tile);
        load(tile, space, 0, 0, &full);
    }
    __syncwarp();
    wait(&full, 0);
    for (int i = threadIdx.x; i < 128; i += 32)
        out[i] = tile[i];
}
