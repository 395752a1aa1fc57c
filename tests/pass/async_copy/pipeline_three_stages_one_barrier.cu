// Three-stage pipeline with one barrier per tile. It says that the tile has arrived for all, and that all are
// done with the tile before it, whose stage is refilled behind the barrier.
// Result: out[i] = sum over k of in[k][127 - i]
//@launch: kernel=sum_tiles grid=1 block=128 arg=in:in:f32[7x128]=randn(seed=0) arg=out:out:f32[128] arg=tiles:u32=7
#include <cuda_pipeline.h>

extern "C" __global__ void sum_tiles(const float *in, float *out, unsigned tiles)
{
    constexpr unsigned STAGES = 3;
    __shared__ float stage[STAGES][128];
    unsigned t = threadIdx.x;
    float sum = 0.0f;
    for (unsigned k = 0; k < STAGES - 1; k++) {
        if (k < tiles)
            __pipeline_memcpy_async(&stage[k][t], &in[k * 128 + t], sizeof(float));
        __pipeline_commit();
    }
    for (unsigned k = 0; k < tiles; k++) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        unsigned ahead = k + STAGES - 1;
        if (ahead < tiles)
            __pipeline_memcpy_async(&stage[ahead % STAGES][t], &in[ahead * 128 + t], sizeof(float));
        __pipeline_commit();
        sum += stage[k % STAGES][127 - t];
    }
    out[t] = sum;
}
