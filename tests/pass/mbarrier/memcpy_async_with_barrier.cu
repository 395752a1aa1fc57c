// cuda::memcpy_async of a whole block, completed by a cuda::barrier, in two stages.
// Result: out[i] = sum over k of in[k][127 - i]
//@launch: kernel=sum_tiles grid=1 block=128 arg=in:in:f32[4x128]=randn(seed=0) arg=out:out:f32[128] arg=tiles:u32=4
#include <cooperative_groups.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;

extern "C" __global__ void sum_tiles(const float *in, float *out, unsigned tiles)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> full[2];
    __shared__ __align__(16) float stage[2][128];
    cg::thread_block block = cg::this_thread_block();
    unsigned t = threadIdx.x;
    if (t < 2)
        init(&full[t], blockDim.x);
    block.sync();
    float sum = 0.0f;
    cuda::memcpy_async(block, stage[0], in, sizeof(stage[0]), full[0]);
    for (unsigned k = 0; k < tiles; k++) {
        unsigned next = k + 1;
        if (next < tiles)
            cuda::memcpy_async(block, stage[next % 2], in + next * 128, sizeof(stage[0]), full[next % 2]);
        full[k % 2].arrive_and_wait();
        sum += stage[k % 2][127 - t];
        block.sync();
    }
    out[t] = sum;
}
