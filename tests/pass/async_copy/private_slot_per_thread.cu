// Each thread waits for its own copy and reads only that: no barrier is needed.
// Result: out[i] = 2 * in[i]
//@launch: kernel=twice grid=2 block=128 arg=in:in:f32[256]=randn(seed=0) arg=out:out:f32[256]
#include <cuda_pipeline.h>

extern "C" __global__ void twice(const float *in, float *out)
{
    __shared__ float slot[128];
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    __pipeline_memcpy_async(&slot[threadIdx.x], &in[i], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = 2.0f * slot[threadIdx.x];
}
