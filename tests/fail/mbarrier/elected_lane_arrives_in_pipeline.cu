// A producer warp scales rows into a ring of four stages. One elected lane arrives on the full barrier: the other 31 lanes'
// stores are not ordered. Consumers do it right.
//@arch: 90a
//@launch: kernel=scale grid=4 block=160 arg=in:in:f32[4x16x128]=randn(seed=1) arg=factor:in:f32[16]=randn(seed=2) arg=out:out:f32[4x128] arg=steps:i32=16
#include "hopper.cuh"

constexpr unsigned STAGES = 4;

extern "C" __global__ void __launch_bounds__(160) scale(const float *in, const float *factor, float *out, int steps)
{
    __shared__ __align__(16) float rows[STAGES][128];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    in += blockIdx.x * steps * 128;
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            INIT(&full[stage], 1);
            INIT(&empty[stage], 128);
        }
    }
    __syncthreads();
    if (warp == 4) {
        for (int step = 0; step < steps; step++) {
            unsigned stage = step % STAGES;
            WAIT(&empty[stage], (step / STAGES & 1) ^ 1);
            float4 row = reinterpret_cast<const float4 *>(in + step * 128)[lane];
            float by = factor[step];
            reinterpret_cast<float4 *>(rows[stage])[lane] = make_float4(row.x * by, row.y * by, row.z * by, row.w * by); //~ shared-race
            if (elected())
                ARRIVE(&full[stage]); //~ shared-race
        }
        return;
    }
    float sum = 0;
    for (int step = 0; step < steps; step++) {
        unsigned stage = step % STAGES;
        WAIT(&full[stage], step / STAGES & 1);
        sum += rows[stage][threadIdx.x]; //~ shared-race
        ARRIVE(&empty[stage]);
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
