// An mbarrier is invalidated behind a barrier, and its bytes then hold ordinary numbers.
// Result: out[i] = in[63 - i] + 5
//@launch: kernel=reuse grid=1 block=64 arg=in:in:i32[64]=randint(-99,99,seed=0) arg=out:out:i32[64]

extern "C" __global__ void reuse(const int *in, int *out)
{
    __shared__ unsigned long long word;
    __shared__ int tile[64];
    unsigned t = threadIdx.x, barrier = __cvta_generic_to_shared(&word);
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(barrier) : "memory");
    __syncthreads();
    tile[t] = in[t];
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier) : "memory");
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
    int value = tile[63 - t];
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(barrier) : "memory");
        word = 5;
    }
    __syncthreads();
    out[t] = value + (int)word;
}
