// A 256 x 64 tile of a product by a pair of blocks: each has half of the rows of A and of the result and half of the columns of B.
// The operands of each step are overwritten when the multiplication before has read them in both blocks.
//@arch: 100a
//@launch: kernel=gemm grid=2 block=128 arg=a:in:f16[256x64]=randn(seed=0) arg=b:in:f16[64x64]=randn(seed=1) arg=d:out:f32[256x64]
#include "blackwell.cuh"
#include <cuda_fp16.h>

constexpr int K = 64, N = 64;

extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(128) gemm(const __half *a, const __half *b, float *d)
{
    __shared__ __align__(128) __half tile_a[128 * 16], tile_b[N / 2 * 16];
    __shared__ unsigned long long done;
    __shared__ unsigned base;
    unsigned warp = threadIdx.x / 32, rank = blockIdx.x % 2, row = rank * 128 + threadIdx.x;
    if (threadIdx.x == 0) {
        INIT(&done, 1);
        FENCE_INIT();
    }
    if (warp == 0) {
        PAIR_ALLOC(&base, 64);
        PAIR_RELINQUISH();
    }
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    unsigned memory = base;
    for (int step = 0; step < K / 16; step++) {
        for (unsigned i = threadIdx.x; i < 128 * 16; i += 128)
            tile_a[place(128, i / 16, i % 16)] = a[(rank * 128 + i / 16) * K + step * 16 + i % 16];
        for (unsigned i = threadIdx.x; i < N / 2 * 16; i += 128)
            tile_b[place(N / 2, i / 16, i % 16)] = b[(rank * N / 2 + i / 16) * K + step * 16 + i % 16];
        FENCE_PROXY();
        CLUSTER_ARRIVE();
        CLUSTER_WAIT();
        if (rank == 0 && threadIdx.x == 0) {
            PAIR_MULTIPLY(memory, descriptor(tile_a, 128), descriptor(tile_b, N / 2), format(256, N), step);
            PAIR_COMMIT(&done, 3);
        }
        __syncwarp();
        WAIT(&done, step & 1);
        FENCE_AFTER();
    }
    float result[N];
#pragma unroll
    for (int column = 0; column < N; column += 8)
        TENSOR_LOAD_8(&result[column], memory + (warp * 32 << 16) + column);
    WAIT_LOADS();
#pragma unroll
    for (int column = 0; column < N; column++) {
        float sum = 0;
#pragma unroll 1
        for (int k = 0; k < K; k++)
            sum += __half2float(a[row * K + k]) * __half2float(b[column * K + k]);
        if (fabsf(sum - result[column]) > 1e-3f)
            __trap();
        d[row * N + column] = result[column];
    }
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    if (warp == 0)
        PAIR_FREE(memory, 64);
}
