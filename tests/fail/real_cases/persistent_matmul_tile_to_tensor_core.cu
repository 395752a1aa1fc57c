// After pytorch/pytorch#181248: a persistent matmul in which loader warps convert tiles, store them, and arrive on a barrier that the
// multiplying warps wait for. The barrier orders threads; fence.proxy.async is missing, and results differ from run to run.
//@arch: 90a
//@launch: kernel=matmul grid=2 block=256 arg=a:in:f32[2x3x4x64x16]=randn(seed=12) arg=b:in:f32[4x16x32]=randn(seed=13) arg=d:out:f32[2x3x64x32] arg=tiles:i32=3
#include "hopper.cuh"

constexpr unsigned STAGES = 3, STEPS = 4;

__device__ unsigned short half_of(float value)
{
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

extern "C" __global__ void __launch_bounds__(256) matmul(const float *a, const float *b, float *d, int tiles)
{
    __shared__ __align__(128) unsigned short tile_a[STAGES][64 * 16], tile_b[STAGES][32 * 16];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    a += blockIdx.x * tiles * STEPS * 64 * 16;
    d += blockIdx.x * tiles * 64 * 32;
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            INIT(&full[stage], 128);
            INIT(&empty[stage], 4);
        }
    }
    __syncthreads();
    if (threadIdx.x >= 128) { // Loaders.
        for (unsigned step = 0; step < tiles * STEPS; step++) {
            unsigned stage = step % STAGES;
            WAIT(&empty[stage], (step / STAGES & 1) ^ 1);
            for (unsigned i = thread; i < 64 * 16; i += 128)
                tile_a[stage][place(64, i / 16, i % 16)] = half_of(a[step * 64 * 16 + i]); //~ proxy
            for (unsigned i = thread; i < 32 * 16; i += 128)
                tile_b[stage][place(32, i % 32, i / 32)] = half_of(b[step % STEPS * 16 * 32 + i]); //~ proxy
            ARRIVE(&full[stage]);
        }
        return;
    }
    for (unsigned tile = 0, step = 0; tile < tiles; tile++) {
        float c[16] = {};
        for (unsigned k = 0; k < STEPS; k++, step++) {
            unsigned stage = step % STAGES;
            WAIT(&full[stage], step / STAGES & 1);
            WGMMA_FENCE();
            WGMMA_64X32(c, descriptor(tile_a[stage], 64), descriptor(tile_b[stage], 32)); //~ proxy
            WGMMA_COMMIT();
            WGMMA_WAIT(0);
            if (elected())
                ARRIVE(&empty[stage]);
        }
        unsigned row = tile * 64 + warp * 16 + lane / 4;
        for (unsigned i = 0; i < 16; i++)
            d[(row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + lane % 4 * 2 + i % 2] = c[i];
    }
}
