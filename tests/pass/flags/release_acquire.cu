// Block 0 sends 32 values to block 1; the flag is stored with release and loaded with acquire. The other
// threads of either block are drawn in by __syncwarp and __syncthreads.
// Result: out[i] = 3 * in[i]
//@launch: kernel=message grid=2 block=32 arg=in:in:i32[32]=iota(5) arg=buffer:out:i32[32] arg=flag:inout:u32[1]=zeros arg=out:out:i32[32]

extern "C" __global__ void message(const int *in, int *buffer, unsigned *flag, int *out)
{
    unsigned t = threadIdx.x;
    if (blockIdx.x == 0) {
        buffer[t] = 3 * in[t];
        __syncwarp();
        if (t == 0)
            asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
    } else {
        if (t == 0) {
            unsigned ready = 0;
            while (ready == 0)
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
        }
        __syncthreads();
        out[t] = buffer[t];
    }
}
