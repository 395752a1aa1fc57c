// Attention keeps the probabilities in registers as matrix A; those of the next step are written after the wait.
//@arch: 90a
//@launch: kernel=attend grid=1 block=128 arg=p:in:i32[6x128x4]=randint(0, 1000, seed=15) arg=v:in:f16[128]=randn(seed=16) arg=d:out:f32[64x8] arg=steps:i32=6
#include "hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) attend(const unsigned *p, const unsigned short *v, float *d, int steps)
{
    __shared__ __align__(128) unsigned short tile[128];
    tile[threadIdx.x] = v[threadIdx.x];
    FENCE_PROXY();
    __syncthreads();
    float c[4] = {};
    unsigned a[4];
    for (unsigned i = 0; i < 4; i++)
        a[i] = p[threadIdx.x * 4 + i] * 3;
    for (int step = 1; step < steps; step++) {
        WGMMA_FENCE();
        // The compiler must keep the four registers.
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])
                     : "l"(descriptor(tile, 8)));
        WGMMA_COMMIT();
        WGMMA_WAIT(0);
        for (unsigned i = 0; i < 4; i++)
            a[i] = a[i] * 5 + p[(step * 128 + threadIdx.x) * 4 + i];
    }
    for (unsigned i = 0; i < 4; i++)
        d[threadIdx.x * 4 + i] = c[i];
}
