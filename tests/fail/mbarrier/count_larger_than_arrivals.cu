// All 64 threads meet at an mbarrier that expects 65 arrivals. The phase never completes, and all wait for
// ever.
// Corpus: a12
//@launch: kernel=reverse grid=1 block=64 arg=in:in:i32[64]=iota(100) arg=out:out:i32[64]

#define TEST_WAIT(done, barrier, state)                                                                         \
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"           \
                 : "=r"(done) : "r"(barrier), "l"(state) : "memory")

extern "C" __global__ void reverse(const int *in, int *out)
{
    __shared__ unsigned long long all_here;
    __shared__ int tile[64];
    unsigned t = threadIdx.x, barrier = __cvta_generic_to_shared(&all_here);
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 65;" ::"r"(barrier) : "memory");
    __syncthreads();
    tile[t] = in[t];
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(barrier) : "memory");
    unsigned done;
    do TEST_WAIT(done, barrier, state); while (!done); //~ deadlock
    out[t] = tile[63 - t];
}
