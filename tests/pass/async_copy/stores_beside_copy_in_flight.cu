// While asynchronous copies fill the even slots of a tile, ordinary stores fill the odd ones: neighboring
// bytes, no conflict.
// Result: out[2 * i] = in[i], out[2 * i + 1] = -1
//@launch: kernel=interleave grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[128]
#include <cuda_pipeline.h>

extern "C" __global__ void interleave(const float *in, float *out)
{
    __shared__ float tile[128];
    unsigned t = threadIdx.x;
    __pipeline_memcpy_async(&tile[2 * t], &in[t], sizeof(float));
    __pipeline_commit();
    tile[2 * (63 - t) + 1] = -1.0f;
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = tile[t];
    out[t + 64] = tile[t + 64];
}
