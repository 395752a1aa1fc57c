// After pengcuo/FlashMLA-ETAP#3, as it was fixed: a proxy fence after the stores, and a barrier of the warpgroup before wgmma.
//@arch: 90a
//@launch: kernel=decode grid=2 block=160 arg=scores:in:f32[2x6x64x16]=randn(seed=10) arg=v:in:f16[2x6x16x32]=randn(seed=11) arg=out:out:f32[2x64x32] arg=steps:i32=6
#include "hopper.cuh"

constexpr unsigned STAGES = 2, V_TILE = 16 * 32;

extern "C" __global__ void __launch_bounds__(160) decode(const float *scores, const unsigned short *v, float *out, int steps)
{
    __shared__ __align__(128) unsigned short p[64 * 16], tile_v[STAGES][V_TILE];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    scores += blockIdx.x * steps * 64 * 16;
    v += blockIdx.x * steps * V_TILE;
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            INIT(&full[stage], 1);
            INIT(&empty[stage], 1);
        }
        FENCE_INIT();
    }
    __syncthreads();
    if (warp == 4) {
        if (elected()) {
            for (int step = 0; step < steps; step++) {
                unsigned stage = step % STAGES;
                WAIT(&empty[stage], (step / STAGES & 1) ^ 1);
                ARRIVE_EXPECT(&full[stage], 2 * V_TILE);
                BULK_LOAD(tile_v[stage], v + step * V_TILE, 2 * V_TILE, &full[stage]);
            }
        }
        return;
    }
    float o[16] = {};
    for (int step = 0; step < steps; step++) {
        unsigned stage = step % STAGES;
        // The probabilities are computed in the transposed order: a thread has elements of many rows.
        for (unsigned i = threadIdx.x; i < 64 * 16; i += 128) {
            float probability = exp2f(scores[step * 64 * 16 + i]);
            unsigned short half;
            asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(probability));
            p[place(64, i % 64, i / 64)] = half;
        }
        FENCE_PROXY();
        NAMED_BARRIER(1, 128);
        WAIT(&full[stage], step / STAGES & 1);
        WGMMA_FENCE();
        WGMMA_64X32(o, descriptor(p, 64), descriptor(tile_v[stage], 32));
        WGMMA_COMMIT();
        WGMMA_WAIT(0);
        NAMED_BARRIER(1, 128);
        if (threadIdx.x == 0)
            ARRIVE(&empty[stage]);
    }
    unsigned row = blockIdx.x * 64 + warp * 16 + lane / 4;
    for (unsigned i = 0; i < 16; i++)
        out[(row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + lane % 4 * 2 + i % 2] = o[i];
}
