// Two-stage pipeline of <cuda_pipeline.h>: the next tile is fetched while this one is used; all threads read
// what others copied, so a barrier stands before and after the use.
// Result: out[i] = sum over k of in[k][127 - i]
//@launch: kernel=sum_tiles grid=1 block=128 arg=in:in:f32[6x128]=randn(seed=0) arg=out:out:f32[128] arg=tiles:u32=6
#include <cuda_pipeline.h>

extern "C" __global__ void sum_tiles(const float *in, float *out, unsigned tiles)
{
    __shared__ float stage[2][128];
    unsigned t = threadIdx.x;
    float sum = 0.0f;
    __pipeline_memcpy_async(&stage[0][t], &in[t], sizeof(float));
    __pipeline_commit();
    for (unsigned k = 0; k < tiles; k++) {
        if (k + 1 < tiles) {
            __pipeline_memcpy_async(&stage[(k + 1) % 2][t], &in[(k + 1) * 128 + t], sizeof(float));
            __pipeline_commit();
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        sum += stage[k % 2][127 - t];
        __syncthreads();
    }
    out[t] = sum;
}
