// Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2, each pair at its own times. Values go to the
// other warp of the pair and come back.
// Result: out[i] = in[i] + in[i ^ 63]
//@launch: kernel=pairs grid=1 block=128 arg=in:in:i32[128]=randint(-99,99,seed=0) arg=out:out:i32[128]

extern "C" __global__ void pairs(const int *in, int *out)
{
    __shared__ int tile[128];
    unsigned t = threadIdx.x, barrier = 1 + t / 64;
    tile[t] = in[t];
    asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory");
    int sum = tile[t ^ 32];
    asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory");
    tile[t ^ 32] = sum;
    asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory");
    out[t] = tile[t] + in[t ^ 63];
}
