// The copies of A leave out the last eight columns of the tile.
//@arch: 90a
//@launch: kernel=gemm grid=2 block=160 arg=a:in:f16[2x16x2048]=randn(seed=0) arg=b:in:f16[16x1024]=randn(seed=1) arg=d:out:f32[128x32] arg=steps:i32=16
#include "hopper.cuh"

// Tiles of 64 x 32 and 32 x 32 halves, packed in global memory as the tensor core reads them.
constexpr unsigned STAGES = 4, A_TILE = 64 * 32, B_TILE = 32 * 32, BYTES = 2 * (A_TILE + B_TILE);

extern "C" __global__ void __launch_bounds__(160) gemm(const unsigned short *a, const unsigned short *b, float *d, int steps)
{
    __shared__ __align__(128) unsigned short tile_a[STAGES][A_TILE], tile_b[STAGES][B_TILE];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    a += blockIdx.x * steps * A_TILE;
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            INIT(&full[stage], 1);
            INIT(&empty[stage], 4);
        }
        FENCE_INIT();
    }
    __syncthreads();
    if (warp == 4) { // The producer.
        if (elected()) {
            for (int step = 0; step < steps; step++) {
                unsigned stage = step % STAGES, parity = step / STAGES & 1;
                WAIT(&empty[stage], parity ^ 1);
                ARRIVE_EXPECT(&full[stage], 3 * A_TILE / 2 + 2 * B_TILE);
                BULK_LOAD(tile_a[stage], a + step * A_TILE, 3 * A_TILE / 2, &full[stage]);
                BULK_LOAD(tile_b[stage], b + step * B_TILE, 2 * B_TILE, &full[stage]);
            }
        }
        return;
    }
    float c[16] = {};
    for (int step = 0; step < steps; step++) {
        unsigned stage = step % STAGES, parity = step / STAGES & 1;
        WAIT(&full[stage], parity);
        WGMMA_FENCE();
        for (unsigned k = 0; k < 32; k += 16)
            WGMMA_64X32(c, descriptor(tile_a[stage] + place(64, 0, k), 64), descriptor(tile_b[stage] + place(32, 0, k), 32)); //~ uninitialized
        WGMMA_COMMIT();
        WGMMA_WAIT(0);
        if (elected())
            ARRIVE(&empty[stage]);
    }
    unsigned row = blockIdx.x * 64 + warp * 16 + lane / 4;
    for (unsigned i = 0; i < 16; i++)
        d[(row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + lane % 4 * 2 + i % 2] = c[i];
}
