// The commit arrives in the block that multiplies only; the other one overwrites its operand without a wait.
//@arch: 100a
//@launch: kernel=product grid=2 block=128 arg=a:in:f16[256x16]=randn(seed=0) arg=b:in:f16[32x16]=randn(seed=1) arg=d:out:f32[256x32]
#include "blackwell.cuh"

extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(128)
    product(const unsigned short *a, const unsigned short *b, float *d)
{
    __shared__ __align__(128) unsigned short tile_a[128 * 16], tile_b[16 * 16];
    __shared__ unsigned long long done;
    __shared__ unsigned base;
    unsigned warp = threadIdx.x / 32, rank = blockIdx.x % 2;
    if (threadIdx.x == 0) {
        INIT(&done, 1);
        FENCE_INIT();
    }
    if (warp == 0)
        PAIR_ALLOC(&base, 32);
    for (unsigned i = threadIdx.x; i < 128 * 16; i += 128)
        tile_a[place(128, i / 16, i % 16)] = a[rank * 128 * 16 + i];
    for (unsigned i = threadIdx.x; i < 16 * 16; i += 128)
        tile_b[place(16, i / 16, i % 16)] = b[rank * 16 * 16 + i];
    FENCE_PROXY();
    FENCE_BEFORE();
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
    FENCE_AFTER();
    unsigned memory = base, own = memory + (warp * 32 << 16);
    if (rank == 0 && threadIdx.x == 0) {
        PAIR_MULTIPLY(memory, descriptor(tile_a, 128), descriptor(tile_b, 16), format(256, 32), 0); //~ async-multiply
        PAIR_COMMIT(&done, 1);
    }
    __syncwarp();
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
    if (rank == 0)
        WAIT(&done, 0);
    else
        tile_a[threadIdx.x] = 0; //~ async-multiply
    FENCE_BEFORE();
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
    FENCE_AFTER();
    float row[32];
    for (int column = 0; column < 32; column += 8)
        TENSOR_LOAD_8(&row[column], own + column);
    WAIT_LOADS();
    for (int column = 0; column < 32; column++)
        d[(rank * 128 + threadIdx.x) * 32 + column] = row[column];
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    if (warp == 0)
        PAIR_FREE(memory, 32);
}
