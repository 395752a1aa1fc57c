// An mbarrier as the barrier of a block, phase after phase, with the state that arrive returns. Work that needs
// no one else stands between arrival and wait.
// Result: out[i] = in[i] after four rotations by one, plus 6
//@launch: kernel=rotate grid=1 block=64 arg=in:in:i32[64]=randint(-99,99,seed=0) arg=out:out:i32[64]

__device__ unsigned long long arrive(unsigned barrier)
{
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(barrier) : "memory");
    return state;
}

__device__ void wait(unsigned barrier, unsigned long long state)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "l"(state)
                     : "memory");
}

extern "C" __global__ void rotate(const int *in, int *out)
{
    __shared__ unsigned long long all_here;
    __shared__ int ring[2][64];
    unsigned t = threadIdx.x, barrier = __cvta_generic_to_shared(&all_here);
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(barrier) : "memory");
    __syncthreads();
    int value = in[t], extra = 0;
    for (int round = 0; round < 4; round++) {
        ring[round % 2][t] = value;
        unsigned long long state = arrive(barrier);
        extra += round;
        wait(barrier, state);
        value = ring[round % 2][(t + 1) % 64];
    }
    out[t] = value + extra;
}
