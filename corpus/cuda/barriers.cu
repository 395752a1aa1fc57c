// Barriers: mbarrier through <cuda/barrier> and the <cuda_awbarrier_primitives.h> intrinsics, and by inline PTX with
// phase parity; split arrive and wait, with asynchronous copies that arrive when done.
// Result: split_barrier    out[b*128+t] = in[b*128 + (t + 1) % 128] * 2
//         barrier_copy     out[t] = in[255 - t]
//         parity_rounds    out[t] = rounds * 128: in each round every thread adds 1 to a shared sum, then waits
//         primitives       out[t] = in[(t + 32) % 128]
//@arch: 80+
//@launch: kernel=split_barrier grid=2 block=128 arg=in:f32[256]=randn(seed=0) arg=out:f32[256]
//@launch: kernel=barrier_copy grid=1 block=256 arg=in:f32[256]=randn(seed=1) arg=out:f32[256]
//@launch: kernel=parity_rounds grid=1 block=128 arg=out:u32[128] arg=rounds:u32=5
//@launch: kernel=primitives grid=1 block=128 arg=in:f32[128]=randn(seed=2) arg=out:f32[128]
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda_awbarrier_primitives.h>
namespace cg = cooperative_groups;

using BlockBarrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void split_barrier(const float *in, float *out)
{
    __shared__ BlockBarrier barrier;
    __shared__ float tile[128];
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x == 0)
        init(&barrier, 128);
    __syncthreads();
    tile[threadIdx.x] = in[i];
    BlockBarrier::arrival_token token = barrier.arrive();
    float factor = 2.0f;
    barrier.wait(cuda::std::move(token));
    out[i] = tile[(threadIdx.x + 1) % 128] * factor;
}

extern "C" __global__ void barrier_copy(const float *in, float *out)
{
    __shared__ BlockBarrier barrier;
    __shared__ __align__(16) float tile[256];
    cg::thread_block block = cg::this_thread_block();
    if (block.thread_rank() == 0)
        init(&barrier, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, in, cuda::aligned_size_t<16>(sizeof(tile)), barrier);
    barrier.arrive_and_wait();
    out[threadIdx.x] = tile[255 - threadIdx.x];
}

extern "C" __global__ void parity_rounds(unsigned *out, unsigned rounds)
{
    __shared__ __align__(8) unsigned long long barrier;
    __shared__ unsigned sum;
    unsigned address = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(blockDim.x) : "memory");
        sum = 0;
    }
    __syncthreads();
    for (unsigned round = 0; round < rounds; round++) {
        atomicAdd(&sum, 1);
        asm volatile("{\n\t"
                     ".reg .b64 state;\n\t"
                     ".reg .pred complete;\n\t"
                     "mbarrier.arrive.shared.b64 state, [%0];\n\t"
                     "spin:\n\t"
                     "mbarrier.test_wait.parity.shared.b64 complete, [%0], %1;\n\t"
                     "@!complete bra spin;\n\t"
                     "}" ::"r"(address),
                     "r"(round % 2)
                     : "memory");
    }
    out[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(address) : "memory");
}

extern "C" __global__ void primitives(const float *in, float *out)
{
    __shared__ __mbarrier_t barrier;
    __shared__ float tile[128];
    if (threadIdx.x == 0)
        __mbarrier_init(&barrier, 128);
    __syncthreads();
    tile[threadIdx.x] = in[threadIdx.x];
    __mbarrier_token_t token = __mbarrier_arrive(&barrier);
    while (!__mbarrier_test_wait(&barrier, token)) {
    }
    out[threadIdx.x] = tile[(threadIdx.x + 32) % 128];
}
