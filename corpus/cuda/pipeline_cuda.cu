// Asynchronous copies through <cuda/pipeline>: a thread-scope pipeline, and a block-scope pipeline whose
// stages are shared by all threads, driven by cooperative memcpy_async.
// Result: out[b*256+t] = sum over i of in[b][i][t], `tiles` tiles of 256 floats per block
//@arch: 75+
//@launch: kernel=pipeline_thread grid=2 block=256 arg=in:f32[4096]=randn(seed=0) arg=out:f32[512] arg=tiles:u32=8
//@launch: kernel=pipeline_block grid=2 block=256 arg=in:f32[4096]=randn(seed=1) arg=out:f32[512] arg=tiles:u32=8
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

extern "C" __global__ void pipeline_thread(const float *in, float *out, unsigned tiles)
{
    __shared__ float stage[2][256];
    const float *mine = in + blockIdx.x * tiles * 256 + threadIdx.x;
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    float sum = 0.0f;
    for (unsigned fetch = 0, tile = 0; tile < tiles; tile++) {
        for (; fetch < tiles && fetch < tile + 2; fetch++) {
            pipe.producer_acquire();
            cuda::memcpy_async(&stage[fetch % 2][threadIdx.x], mine + fetch * 256, sizeof(float), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stage[tile % 2][threadIdx.x];
        pipe.consumer_release();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

extern "C" __global__ void pipeline_block(const float *in, float *out, unsigned tiles)
{
    __shared__ __align__(16) float stage[2][256];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    cg::thread_block block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const float *tile_of_block = in + blockIdx.x * tiles * 256;
    float sum = 0.0f;
    for (unsigned fetch = 0, tile = 0; tile < tiles; tile++) {
        for (; fetch < tiles && fetch < tile + 2; fetch++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[fetch % 2], tile_of_block + fetch * 256,
                               cuda::aligned_size_t<16>(sizeof(stage[0])), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stage[tile % 2][255 - threadIdx.x];
        pipe.consumer_release();
    }
    out[blockIdx.x * 256 + 255 - threadIdx.x] = sum;
}
