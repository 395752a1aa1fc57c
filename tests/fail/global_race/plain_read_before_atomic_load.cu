// Block 0 reads a counter by an ordinary load and again by an atomic one. Block 1 stores to it atomically: the second read is
// allowed, the first one races.
//@launch: kernel=watch grid=2 block=32 arg=counter:inout:i32[1]=zeros arg=out:out:i32[2]

extern "C" __global__ void watch(int *counter, int *out)
{
    if (threadIdx.x != 0)
        return;
    int first = 0, second = 0;
    if (blockIdx.x == 0) {
        asm volatile("ld.global.b32 %0, [%1];" : "=r"(first) : "l"(counter) : "memory"); //~ global-race
        asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(second) : "l"(counter) : "memory");
    } else {
        asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(counter), "r"(7) : "memory"); //~ global-race
    }
    out[blockIdx.x] = (first | second) & 0;
}
