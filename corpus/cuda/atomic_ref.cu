// <cuda/atomic>: atomic_ref with memory orders and scopes, fences, a flag, and a message passed with release/acquire.
// Result: counters  out[0] = 256 (relaxed adds), out[1] = 255 (fetch_max), out[2] = 256 (compare-exchange loop)
//         message   out[i] = i * 3 for the 32 values thread 0 of block 0 sends to block 1
//@arch: 75+
//@launch: kernel=counters grid=2 block=128 arg=out:u32[3]=0
//@launch: kernel=message grid=2 block=32 arg=buffer:u32[32]=0 arg=flag:u32[1]=0 arg=out:u32[32]
#include <cuda/atomic>

extern "C" __global__ void counters(unsigned *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> sum(out[0]), top(out[1]);
    cuda::atomic_ref<unsigned, cuda::thread_scope_system> loop(out[2]);
    sum.fetch_add(1, cuda::memory_order_relaxed);
    top.fetch_max(i, cuda::memory_order_acq_rel);
    unsigned seen = loop.load(cuda::memory_order_acquire);
    while (!loop.compare_exchange_weak(seen, seen + 1, cuda::memory_order_release, cuda::memory_order_relaxed)) {
    }
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_block);
}

extern "C" __global__ void message(unsigned *buffer, unsigned *flag, unsigned *out)
{
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            for (unsigned i = 0; i < 32; i++)
                buffer[i] = i * 3;
            ready.store(1, cuda::memory_order_release);
        }
    } else {
        while (ready.load(cuda::memory_order_acquire) == 0) {
        }
        out[threadIdx.x] = buffer[threadIdx.x];
    }
}
