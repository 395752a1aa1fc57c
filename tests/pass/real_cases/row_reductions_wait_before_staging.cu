// After NVIDIA/cudnn-frontend#1049, as it was fixed: a barrier after the wait, and one after the stores and the proxy fence.
//@arch: 90a
//@launch: kernel=accumulate grid=2 block=128 arg=in:in:f32[2x4x8x128]=randn(seed=14) arg=out:inout:f32[2x8x128]=0 arg=blocks:i32=4
#include "hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) accumulate(const float *in, float *out, int blocks)
{
    __shared__ __align__(128) float staging[8][128];
    in += blockIdx.x * blocks * 1024;
    for (int block = 0; block < blocks; block++) {
        if (threadIdx.x < 8)
            BULK_WAIT_READ(0);
        NAMED_BARRIER(1, 128);
        for (unsigned row = 0; row < 8; row++)
            staging[row][threadIdx.x] = in[block * 1024 + row * 128 + threadIdx.x];
        FENCE_PROXY();
        NAMED_BARRIER(2, 128);
        if (threadIdx.x < 8) {
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                             __cvta_generic_to_global(out + blockIdx.x * 1024 + threadIdx.x * 128)),
                         "r"(SHARED(staging[threadIdx.x])), "r"(512)
                         : "memory");
            BULK_COMMIT();
        }
    }
    if (threadIdx.x < 8)
        BULK_WAIT_READ(0);
}
