// A persistent block initializes its barriers again for each tile, while the last phases are still in use.
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
    for (int tile = 0; tile < tiles; tile++) {
        if (threadIdx.x == 0) {
            for (unsigned stage = 0; stage < STAGES; stage++) {
                INIT(&full[stage], 1); //~ mbarrier
                INIT(&empty[stage], 128); //~ mbarrier
            }
            FENCE_INIT();
        }
        __syncthreads();
        float total = 0;
        for (unsigned step = 0; step < STEPS; step++) {
            unsigned stage = step % STAGES, parity = step / STAGES & 1;
            if (warp == 4) {
                if (elected()) {
                    WAIT(&empty[stage], parity ^ 1);
                    ARRIVE_EXPECT(&full[stage], 512);
                    BULK_LOAD(rows[stage], in + (tile * STEPS + step) * 128, 512, &full[stage]);
                }
            } else {
                WAIT(&full[stage], parity);
                total += rows[stage][threadIdx.x];
                ARRIVE(&empty[stage]);
            }
        }
        if (warp < 4)
            out[tile * 128 + threadIdx.x] = total;
        __syncthreads();
    }
}
