// Asynchronous copies through <cuda_pipeline.h>: a three-stage pipeline and copies of 4, 8 and 16 bytes
// with zero-fill. Without cp.async (sm_75) the header falls back to ordinary copies.
// Result: pipeline_sum        out[b*256+t] = sum over i of in[b][i][t], `tiles` tiles of 256 floats per block
//         pipeline_zero_fill  out[i] = i < n ? in[i] : 0 for a block of 128 threads and 512 floats
//@arch: 75+
//@launch: kernel=pipeline_sum grid=2 block=256 arg=in:f32[4096]=randn(seed=0) arg=out:f32[512] arg=tiles:u32=8
//@launch: kernel=pipeline_zero_fill grid=1 block=128 arg=in:f32[512]=randn(seed=1) arg=out:f32[512] arg=n:u32=401
#include <cuda_pipeline.h>

extern "C" __global__ void pipeline_sum(const float *in, float *out, unsigned tiles)
{
    constexpr unsigned STAGES = 3;
    __shared__ float stage[STAGES][256];
    const float *mine = in + blockIdx.x * tiles * 256 + threadIdx.x;
    float sum = 0.0f;
    for (unsigned ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead < tiles)
            __pipeline_memcpy_async(&stage[ahead][threadIdx.x], mine + ahead * 256, sizeof(float));
        __pipeline_commit();
    }
    for (unsigned tile = 0; tile < tiles; tile++) {
        unsigned next = tile + STAGES - 1;
        if (next < tiles)
            __pipeline_memcpy_async(&stage[next % STAGES][threadIdx.x], mine + next * 256, sizeof(float));
        // Committed even when empty: then "all but the last two groups" is always the tile to be used.
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        sum += stage[tile % STAGES][threadIdx.x];
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

extern "C" __global__ void pipeline_zero_fill(const float *in, float *out, unsigned n)
{
    __shared__ __align__(16) float tile[512];
    unsigned first = threadIdx.x * 4;
    unsigned present = first >= n ? 0 : min(n - first, 4u);
    __pipeline_memcpy_async(&tile[first], &in[first], 16, 16 - present * 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    // Read what another thread copied.
    unsigned other = 127 - threadIdx.x;
    *(float4 *)&out[other * 4] = *(const float4 *)&tile[other * 4];
}
