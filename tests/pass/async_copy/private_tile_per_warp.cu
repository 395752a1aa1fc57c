// Each warp runs a two-stage pipeline over tiles of its own; lanes read what other lanes copied, so __syncwarp
// stands before and after each use, and no barrier of the block.
// Result: out[w][i] = sum over k of in[w][k][31 - i]
//@launch: kernel=sum_tiles grid=1 block=128 arg=in:in:f32[4x5x32]=randn(seed=0) arg=out:out:f32[4x32] arg=tiles:u32=5
#include <cuda_pipeline.h>

extern "C" __global__ void sum_tiles(const float *in, float *out, unsigned tiles)
{
    __shared__ float stage[4][2][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float (*mine)[32] = stage[warp];
    in += warp * tiles * 32;
    float sum = 0.0f;
    __pipeline_memcpy_async(&mine[0][lane], &in[lane], sizeof(float));
    __pipeline_commit();
    for (unsigned k = 0; k < tiles; k++) {
        if (k + 1 < tiles)
            __pipeline_memcpy_async(&mine[(k + 1) % 2][lane], &in[(k + 1) * 32 + lane], sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncwarp();
        sum += mine[k % 2][31 - lane];
        __syncwarp();
    }
    out[threadIdx.x] = sum;
}
