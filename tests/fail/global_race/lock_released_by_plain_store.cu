// Four blocks increment a value under a spin lock that is released by a plain store, without fences. The
// release may be seen before the new value, so that the next holder increments the old one; the plain store
// also races with the atomics of those who wait.
// Corpus: g05
//@launch: kernel=increment grid=4 block=32 arg=lock:inout:i32[1]=zeros arg=value:inout:i32[1]=zeros

extern "C" __global__ void increment(int *lock, int *value)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) { //~ global-race
        }
        value[0] += 1; //~ global-race
        *lock = 0; //~ global-race
    }
}
