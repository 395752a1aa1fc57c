// The warps have waited for their loads, but arrive without tcgen05.fence::before_thread_sync. Only the group `fences` reports this: CUTLASS and
// Triton do without the fence.
//@arch: 100a
//@checks: race,init,array,lanes,barrier,output,provenance,fences
//@launch: kernel=products grid=1 block=128 arg=a:in:f16[128x16]=randn(seed=0) arg=b:in:f16[16x16]=randn(seed=1) arg=d:out:f32[2x128x16]
#include "blackwell.cuh"

#define ARRIVE(barrier) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SHARED(barrier)) : "memory")

extern "C" __global__ void __launch_bounds__(128) products(const unsigned short *a, const unsigned short *b, float *d)
{
    __shared__ __align__(128) unsigned short tile_a[128 * 16], tile_b[16 * 16];
    __shared__ unsigned long long full, empty;
    __shared__ unsigned base;
    unsigned warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        INIT(&full, 1);
        INIT(&empty, 4);
        FENCE_INIT();
    }
    if (warp == 0)
        TENSOR_ALLOC(&base, 32);
    for (unsigned i = threadIdx.x; i < 128 * 16; i += 128)
        tile_a[place(128, i / 16, i % 16)] = a[i];
    for (unsigned i = threadIdx.x; i < 16 * 16; i += 128)
        tile_b[place(16, i / 16, i % 16)] = b[i];
    FENCE_PROXY();
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    unsigned memory = base, own = memory + (warp * 32 << 16);
    for (unsigned round = 0; round < 2; round++) {
        if (threadIdx.x == 0) {
            if (round == 1)
                WAIT(&empty, 0);
            FENCE_AFTER();
            MULTIPLY(memory, descriptor(tile_a, 128), descriptor(tile_b, 16), format(128, 16), 0); //~ tensor-memory
            COMMIT(&full);
        }
        __syncwarp();
        WAIT(&full, round);
        FENCE_AFTER();
        float row[8];
        for (int column = 0; column < 16; column += 8) {
            TENSOR_LOAD_8(row, own + column); //~ tensor-memory
            for (int i = 0; i < 8; i++)
                d[(round * 128 + threadIdx.x) * 16 + column + i] = row[i];
        }
        WAIT_LOADS();
        __syncwarp();
        if (threadIdx.x % 32 == 31)
            ARRIVE(&empty);
    }
    WAIT_LOADS();
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    if (warp == 0)
        TENSOR_FREE(memory, 32);
}
