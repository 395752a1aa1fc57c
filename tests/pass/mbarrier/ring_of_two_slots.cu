// Warp 0 feeds warps 1 and 2 through a ring of two slots, each with a full and an empty mbarrier. The
// producer's first wait on an empty barrier is for the phase before the first, which counts as complete.
// Result: out[i] = in[i] + 1
//@launch: kernel=ring grid=1 block=96 arg=in:in:i32[7x64]=randint(-99,99,seed=0) arg=out:out:i32[7x64] arg=tiles:u32=7

__device__ void arrive(unsigned barrier)
{
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(barrier) : "memory");
}

__device__ void wait(unsigned barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

extern "C" __global__ void ring(const int *in, int *out, unsigned tiles)
{
    __shared__ unsigned long long full[2], empty[2];
    __shared__ int slot[2][64];
    unsigned t = threadIdx.x, f = __cvta_generic_to_shared(full), e = __cvta_generic_to_shared(empty);
    if (t < 2) {
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(f + 8 * t) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(e + 8 * t) : "memory");
    }
    __syncthreads();
    for (unsigned tile = 0; tile < tiles; tile++) {
        unsigned s = tile % 2, parity = tile / 2 % 2;
        if (t < 32) {
            wait(e + 8 * s, parity ^ 1);
            slot[s][t] = in[tile * 64 + t] + 1;
            slot[s][t + 32] = in[tile * 64 + t + 32] + 1;
            arrive(f + 8 * s);
        } else {
            unsigned i = t - 32;
            wait(f + 8 * s, parity);
            out[tile * 64 + 63 - i] = slot[s][63 - i];
            arrive(e + 8 * s);
        }
    }
}
