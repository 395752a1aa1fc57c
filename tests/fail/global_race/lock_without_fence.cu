// Four blocks increment a value under a spin lock. Lock and release are atomic, but atomics order nothing else:
// without fences the next holder may read the value before the last one's store has arrived.
//@launch: kernel=increment grid=4 block=32 arg=lock:inout:i32[1]=zeros arg=value:inout:i32[1]=zeros

extern "C" __global__ void increment(int *lock, int *value)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        value[0] += 1; //~ global-race
        atomicExch(lock, 0);
    }
}
