// Bulk asynchronous copies (sm_90): global to shared with a transaction barrier, shared to global with bulk groups,
// a bulk reduction, and a two-dimensional tensor copy through a descriptor parameter.
// Result: bulk_scale   out[i] = in[i] * 3
//         bulk_add     total[i] += in[i] for i < 256, by a reducing copy
//         tensor_tile  out = the 16×16 tile at column `x`, row `y` of the tensor
//@arch: 90 100 120
//@launch: kernel=bulk_scale grid=2 block=128 arg=in:f32[512]=randn(seed=0) arg=out:f32[512]
//@launch: kernel=bulk_add grid=1 block=128 arg=in:f32[256]=randn(seed=1) arg=total:f32[256]=randn(seed=2)

struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void barrier_init(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ void barrier_expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ void barrier_wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n\t"
                 ".reg .pred done;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1, 0x989680;\n\t"
                 "@done bra.uni past;\n\t"
                 "bra.uni again;\n\t"
                 "past:\n\t"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

extern "C" __global__ void bulk_scale(const float *in, float *out)
{
    __shared__ __align__(128) float tile[256];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned bar = shared_address(&barrier), to = shared_address(tile);
    if (threadIdx.x == 0)
        barrier_init(bar, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(bar, sizeof(tile));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                     "l"(in + blockIdx.x * 256), "r"((unsigned)sizeof(tile)), "r"(bar)
                     : "memory");
    }
    barrier_wait(bar, 0);
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
        tile[i] *= 3.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + blockIdx.x * 256), "r"(to),
                     "r"((unsigned)sizeof(tile))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}

extern "C" __global__ void bulk_add(const float *in, float *total)
{
    __shared__ __align__(128) float tile[256];
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
        tile[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    if (threadIdx.x < 32 && elected) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(total),
                     "r"(shared_address(tile)), "r"((unsigned)sizeof(tile))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
}

extern "C" __global__ void tensor_tile(const __grid_constant__ TensorMap map, int x, int y, float *out)
{
    __shared__ __align__(128) float tile[16 * 16];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned bar = shared_address(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
        barrier_init(bar, 1);
        barrier_expect(bar, sizeof(tile));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                     "[%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)),
                     "l"(&map), "r"(x), "r"(y), "r"(bar)
                     : "memory");
    }
    __syncthreads();
    barrier_wait(bar, 0);
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
        out[i] = tile[i];
}
