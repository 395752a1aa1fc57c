// Four blocks increment a value under a spin lock whose atomics have acquire and release semantics.
// Result: value[0] = 4
//@launch: kernel=increment grid=4 block=32 arg=lock:inout:i32[1]=zeros arg=value:inout:i32[1]=zeros

extern "C" __global__ void increment(int *lock, int *value)
{
    if (threadIdx.x == 0) {
        int taken = 1;
        while (taken != 0)
            asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(taken) : "l"(lock) : "memory");
        value[0] += 1;
        asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(lock), "r"(0) : "memory");
    }
}
