// Half of the threads have arrived when thread 0 initializes the mbarrier again: their arrivals are lost.
//@launch: kernel=count grid=1 block=64 arg=in:in:i32[64]=iota(100) arg=out:out:i32[64]

extern "C" __global__ void count(const int *in, int *out)
{
    __shared__ unsigned long long full;
    unsigned t = threadIdx.x, barrier = __cvta_generic_to_shared(&full);
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(barrier) : "memory"); //~ mbarrier
    __syncthreads();
    if (t < 32)
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier) : "memory");
    __syncthreads();
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(barrier) : "memory"); //~ mbarrier
    __syncthreads();
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier) : "memory");
    out[t] = in[t];
}
