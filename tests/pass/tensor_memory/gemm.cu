// A 128 x 32 tile of a product: one thread loads operands by tensor copies, one multiplies into tensor memory, all warps
// store the result.
//@arch: 100a
//@launch: kernel=gemm grid=1 block=128 arg=a:in:f16[128x256]=randn(seed=0) arg=b:in:f16[32x256]=randn(seed=1) arg=d:out:f32[128x32] arg=map_a:map(a, box=128x64, swizzle=128) arg=map_b:map(b, box=32x64, swizzle=128)
#include "blackwell.cuh"
#include <cuda_fp16.h>

struct __align__(64) TensorMap {
    unsigned long long opaque[16];
};

constexpr int K = 256, STEP = 64, STEPS = K / STEP;

extern "C" __global__ void __launch_bounds__(128)
    gemm(const __half *a, const __half *b, float *d, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b)
{
    __shared__ __align__(1024) __half tile_a[2][128 * STEP], tile_b[2][32 * STEP];
    __shared__ unsigned long long full[2], empty[2], done;
    __shared__ unsigned base;
    unsigned warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < 2; stage++) {
            INIT(&full[stage], 1);
            INIT(&empty[stage], 1);
        }
        INIT(&done, 1);
        FENCE_INIT();
    }
    if (warp == 0) {
        TENSOR_ALLOC(&base, 32);
        TENSOR_RELINQUISH();
    }
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    unsigned memory = base;
    if (threadIdx.x == 0) {
        for (int step = 0; step < STEPS; step++) {
            int stage = step % 2;
            if (step >= 2)
                WAIT(&empty[stage], step / 2 - 1 & 1);
            ARRIVE_EXPECT(&full[stage], sizeof tile_a[0] + sizeof tile_b[0]);
            TENSOR_LOAD(tile_a[stage], &map_a, step * STEP, 0, &full[stage]);
            TENSOR_LOAD(tile_b[stage], &map_b, step * STEP, 0, &full[stage]);
        }
    } else if (threadIdx.x == 32) {
        for (int step = 0; step < STEPS; step++) {
            int stage = step % 2;
            WAIT(&full[stage], step / 2 & 1);
            FENCE_AFTER();
            for (int part = 0; part < STEP / 16; part++)
                MULTIPLY(memory, swizzled(tile_a[stage]) + 2 * part, swizzled(tile_b[stage]) + 2 * part, format(128, 32), step + part);
            COMMIT(&empty[stage]);
        }
        COMMIT(&done);
    }
    __syncwarp();
    WAIT(&done, 0);
    FENCE_AFTER();
    float row[32];
#pragma unroll
    for (int column = 0; column < 32; column += 8)
        TENSOR_LOAD_8(&row[column], memory + (warp * 32 << 16) + column);
    WAIT_LOADS();
#pragma unroll
    for (int column = 0; column < 32; column++) {
        float sum = 0;
#pragma unroll 1
        for (int k = 0; k < K; k++)
            sum += __half2float(a[threadIdx.x * K + k]) * __half2float(b[column * K + k]);
        if (fabsf(sum - row[column]) > 1e-3f)
            __trap();
        d[threadIdx.x * 32 + column] = row[column];
    }
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    if (warp == 0)
        TENSOR_FREE(memory, 32);
}
