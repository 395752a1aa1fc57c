// Warp 1 hands 32 numbers to warp 0 over an mbarrier that thread 0 initializes before a barrier of the block.
// Result: out[i] = in[i]
// Corpus: a11
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:i32[32]=iota(100) arg=out:out:i32[32]

#define TEST_WAIT(done, barrier, parity)                                                                        \
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"    \
                 : "=r"(done) : "r"(barrier), "n"(parity) : "memory")

extern "C" __global__ void hand_over(const int *in, int *out)
{
    __shared__ unsigned long long full;
    __shared__ int tile[32];
    unsigned lane = threadIdx.x % 32, barrier = __cvta_generic_to_shared(&full);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(barrier) : "memory");
    __syncthreads();
    if (threadIdx.x >= 32) {
        tile[lane] = in[lane];
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier) : "memory");
    } else {
        unsigned done = 0;
        while (!done)
            TEST_WAIT(done, barrier, 0);
        out[lane] = tile[lane];
    }
}
