// Two blocks pass a value to and fro eight times; each adds its own number. The turn is a cuda::atomic_ref with
// release and acquire, the value is an ordinary word.
// Result: value[0] = 4 * (1 + 2)
//@launch: kernel=ping_pong grid=2 block=32 arg=value:inout:i32[1]=zeros arg=turn:inout:u32[1]=zeros
#include <cuda/atomic>

extern "C" __global__ void ping_pong(int *value, unsigned *turn)
{
    if (threadIdx.x != 0)
        return;
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> now(*turn);
    for (unsigned round = 0; round < 4; round++) {
        while (now.load(cuda::memory_order_acquire) != 2 * round + blockIdx.x) {
        }
        *value += blockIdx.x + 1;
        now.store(2 * round + blockIdx.x + 1, cuda::memory_order_release);
    }
}
