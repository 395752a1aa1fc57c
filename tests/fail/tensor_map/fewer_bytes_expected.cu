// The last box is half outside of the tensor, and the kernel expects only the bytes inside; an mbarrier gets those of the whole box.
//@arch: 90a
//@launch: kernel=last grid=1 block=128 arg=in:in:f32[20x32]=iota arg=out:out:f32[256] arg=map:map(in, box=8x32)

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
                     : "=r"(done) : "r"(shared(barrier)), "r"(parity) : "memory"); //~ deadlock
}

__device__ void load(void *tile, const TensorMap *map, int x, int y, void *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(tile)), "l"(map), "r"(x), "r"(y), "r"(shared(barrier)) : "memory");
}

extern "C" __global__ void last(const float *, float *out, const __grid_constant__ TensorMap map)
{
    __shared__ __align__(128) float tile[8 * 32];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        init(&full);
        expect(&full, sizeof tile / 2);
        load(tile, &map, 0, 16, &full);
    }
    __syncthreads();
    wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += 128)
        out[i] = tile[i];
}
