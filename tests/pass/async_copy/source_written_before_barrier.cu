// A block writes global scratch, and behind a barrier fetches what other threads wrote by asynchronous copies.
// Result: out[i] = 2 * in[127 - i]
//@launch: kernel=through_scratch grid=1 block=128 arg=in:in:f32[128]=randn(seed=0) arg=scratch:out:f32[128] arg=out:out:f32[128]
#include <cuda_pipeline.h>

extern "C" __global__ void through_scratch(const float *in, float *scratch, float *out)
{
    __shared__ float tile[128];
    unsigned t = threadIdx.x;
    scratch[t] = 2.0f * in[t];
    __syncthreads();
    __pipeline_memcpy_async(&tile[t], &scratch[127 - t], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    // The copies are done, so the scratch may be written again once everyone has waited.
    __syncthreads();
    scratch[t] = 0.0f;
    out[t] = tile[t];
}
