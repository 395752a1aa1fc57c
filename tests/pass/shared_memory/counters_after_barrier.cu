// Shared counters: cleared, barrier, counted by atomics in any order, barrier, read and cleared by plain
// accesses.
// Result: out[v] = how many elements of in are v
//@launch: kernel=count grid=1 block=128 arg=in:in:u32[512]=randint(0,7,seed=0) arg=out:out:u32[8]

extern "C" __global__ void count(const unsigned *in, unsigned *out)
{
    __shared__ unsigned counter[8];
    unsigned t = threadIdx.x, total = 0;
    if (t < 8)
        counter[t] = 0;
    __syncthreads();
    for (unsigned round = 0; round < 4; round++) {
        atomicAdd(&counter[in[round * 128 + t]], 1);
        __syncthreads();
        if (t < 8) {
            total += counter[t];
            counter[t] = 0;
        }
        __syncthreads();
    }
    if (t < 8)
        out[t] = total;
}
