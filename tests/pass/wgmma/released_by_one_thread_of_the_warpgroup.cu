// One thread of the warpgroup releases the tile for all after its wait: wgmma is one operation of the four warps.
//@arch: 90a
//@schedules: 8
//@launch: kernel=product grid=1 block=160 arg=a:in:f16[8x1024]=randn(seed=7) arg=d:out:f32[64x8] arg=steps:i32=8
#include "hopper.cuh"

extern "C" __global__ void __launch_bounds__(160) product(const unsigned short *a, float *d, int steps)
{
    __shared__ __align__(128) unsigned short tile[64 * 16];
    __shared__ __align__(8) unsigned long long full, empty;
    if (threadIdx.x == 0) {
        INIT(&full, 1);
        INIT(&empty, 1);
        FENCE_INIT();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128) {
            for (int step = 0; step < steps; step++) {
                WAIT(&empty, (step & 1) ^ 1);
                ARRIVE_EXPECT(&full, sizeof tile);
                BULK_LOAD(tile, a + step * 1024, sizeof tile, &full);
            }
        }
        return;
    }
    float c[4] = {};
    for (int step = 0; step < steps; step++) {
        WAIT(&full, step & 1);
        WGMMA_FENCE();
        WGMMA_64X8(c, descriptor(tile, 64), descriptor(tile, 8));
        WGMMA_COMMIT();
        WGMMA_WAIT(0);
        if (threadIdx.x == 0)
            ARRIVE(&empty);
    }
    for (unsigned i = 0; i < 4; i++)
        d[threadIdx.x * 4 + i] = c[i];
}
