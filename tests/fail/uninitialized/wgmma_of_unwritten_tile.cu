// The second half of the tile of A is never written.
//@arch: 90a
//@launch: kernel=product grid=1 block=128 arg=d:out:f32[64x8]
#include "hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) product(float *d)
{
    __shared__ __align__(128) unsigned short tile[64 * 16];
    float c[4] = {};
    for (unsigned i = threadIdx.x; i < 64 * 8; i += 128)
        tile[i] = 0x3c00;
    FENCE_PROXY();
    __syncthreads();
    WGMMA_FENCE();
    WGMMA_64X8(c, descriptor(tile, 64), descriptor(tile, 8)); //~ uninitialized
    WGMMA_COMMIT();
    WGMMA_WAIT(0);
    for (unsigned i = 0; i < 4; i++)
        d[threadIdx.x * 4 + i] = c[i];
}
