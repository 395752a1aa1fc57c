// A persistent block initializes its barriers once, and counts the phases over all tiles.
//@arch: 90a
//@launch: kernel=sum grid=2 block=160 arg=in:in:f32[2x6x4x128]=randn(seed=6) arg=out:out:f32[2x6x128] arg=tiles:i32=6
#include "hopper.cuh"

constexpr unsigned STAGES = 2, STEPS = 4;

extern "C" __global__ void __launch_bounds__(160) sum(const float *in, float *out, int tiles)
{
    __shared__ __align__(128) float rows[STAGES][128];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned warp = threadIdx.x / 32;
    in += blockIdx.x * tiles * STEPS * 128;
    out += blockIdx.x * tiles * 128;
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            INIT(&full[stage], 1);
            INIT(&empty[stage], 128);
        }
        FENCE_INIT();
    }
    __syncthreads();
    unsigned step = 0;
    for (int tile = 0; tile < tiles; tile++) {
        float total = 0;
        for (unsigned end = step + STEPS; step < end; step++) {
            unsigned stage = step % STAGES, parity = step / STAGES & 1;
            if (warp == 4) {
                if (elected()) {
                    WAIT(&empty[stage], parity ^ 1);
                    ARRIVE_EXPECT(&full[stage], 512);
                    BULK_LOAD(rows[stage], in + step * 128, 512, &full[stage]);
                }
            } else {
                WAIT(&full[stage], parity);
                total += rows[stage][threadIdx.x];
                ARRIVE(&empty[stage]);
            }
        }
        if (warp < 4)
            out[tile * 128 + threadIdx.x] = total;
    }
}
