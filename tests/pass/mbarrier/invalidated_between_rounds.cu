// Two rounds use one mbarrier. Each invalidates it when all threads are done with it, and the next one initializes it anew.
// Result: out[i] = in[63 - i] + 1
//@launch: kernel=two_rounds grid=1 block=64 arg=in:in:i32[64]=iota(100) arg=out:out:i32[64]

extern "C" __global__ void two_rounds(const int *in, int *out)
{
    __shared__ unsigned long long full;
    __shared__ int tile[64];
    unsigned t = threadIdx.x, barrier = __cvta_generic_to_shared(&full);
    for (int round = 0; round < 2; round++) {
        if (t == 0)
            asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(barrier) : "memory");
        __syncthreads();
        tile[t] = in[t] + round;
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier) : "memory");
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(barrier) : "memory");
        out[t] = tile[63 - t];
        __syncthreads();
        if (t == 0)
            asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(barrier) : "memory");
        __syncthreads();
    }
}
