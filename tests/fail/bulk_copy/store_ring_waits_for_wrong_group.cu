// A persistent block stores 32 tiles through a ring of three buffers. It leaves three groups unread, so that the buffer it fills
// next may still be read; two would be right.
//@arch: 90a
//@launch: kernel=transform grid=2 block=256 arg=in:in:f32[2x32x1024]=randn(seed=5) arg=out:out:f32[2x32x1024] arg=tiles:i32=32
#include "hopper.cuh"

constexpr unsigned BUFFERS = 3, TILE = 1024;

extern "C" __global__ void __launch_bounds__(256) transform(const float *in, float *out, int tiles)
{
    __shared__ __align__(128) float staging[BUFFERS][TILE];
    for (int tile = 0; tile < tiles; tile++) {
        unsigned buffer = tile % BUFFERS, offset = (blockIdx.x * tiles + tile) * TILE;
        if (threadIdx.x == 0)
            BULK_WAIT_READ(3);
        __syncthreads();
        float4 value = reinterpret_cast<const float4 *>(in + offset)[threadIdx.x];
        value = make_float4(2 * value.x, 2 * value.y, 2 * value.z, 2 * value.w);
        reinterpret_cast<float4 *>(staging[buffer])[threadIdx.x] = value; //~ async-copy
        FENCE_PROXY();
        __syncthreads();
        if (threadIdx.x == 0) {
            BULK_STORE(out + offset, staging[buffer], TILE * 4); //~ async-copy
            BULK_COMMIT();
        }
    }
    if (threadIdx.x == 0)
        BULK_WAIT_READ(0);
}
