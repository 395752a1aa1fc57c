// The registers of a load are stored before the warp waits for it: the store waits for its registers.
//@arch: 100a
//@launch: kernel=product grid=1 block=128 arg=a:in:f16[128x16]=randn(seed=0) arg=b:in:f16[16x16]=randn(seed=1) arg=d:out:f32[128x16]
#include "blackwell.cuh"

extern "C" __global__ void __launch_bounds__(128) product(const unsigned short *a, const unsigned short *b, float *d)
{
    __shared__ __align__(128) unsigned short tile_a[128 * 16], tile_b[16 * 16];
    __shared__ unsigned long long done;
    __shared__ unsigned base;
    unsigned warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        INIT(&done, 1);
        FENCE_INIT();
    }
    if (warp == 0)
        TENSOR_ALLOC(&base, 32);
    for (unsigned i = threadIdx.x; i < 128 * 16; i += 128)
        tile_a[place(128, i / 16, i % 16)] = a[i];
    for (unsigned i = threadIdx.x; i < 16 * 16; i += 128)
        tile_b[place(16, i / 16, i % 16)] = b[i];
    FENCE_PROXY();
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    unsigned memory = base, own = memory + (warp * 32 << 16);
    if (threadIdx.x == 0) {
        MULTIPLY(memory, descriptor(tile_a, 128), descriptor(tile_b, 16), format(128, 16), 0);
        COMMIT(&done);
    }
    __syncwarp();
    WAIT(&done, 0);
    FENCE_AFTER();
    float row[16];
    for (int column = 0; column < 16; column += 8)
        TENSOR_LOAD_8(&row[column], own + column);
    for (int column = 0; column < 16; column++)
        d[threadIdx.x * 16 + column] = row[column];
    WAIT_LOADS();
    FENCE_BEFORE();
    __syncthreads();
    FENCE_AFTER();
    if (warp == 0)
        TENSOR_FREE(memory, 32);
}
