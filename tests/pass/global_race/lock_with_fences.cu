// Four blocks increment a value under a spin lock: a fence after taking it, a fence before giving it back.
// Result: value[0] = 4
// Corpus: g05
//@launch: kernel=increment grid=4 block=32 arg=lock:inout:i32[1]=zeros arg=value:inout:i32[1]=zeros

extern "C" __global__ void increment(int *lock, int *value)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        __threadfence();
        value[0] += 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
