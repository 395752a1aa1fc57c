// Every thread of a block stores a value and executes a fence; behind a barrier one thread counts the block. The threads of the
// block that counts last execute a fence behind a barrier, then read all values. Fences are sequentially consistent: each of the
// first comes before each of the last.
// Result: out[t] = sum over the blocks of in[block][t]
//@launch: kernel=sum grid=8 block=64 arg=in:in:i32[512]=randint(-99,99,seed=0) arg=partial:out:i32[512] arg=count:inout:u32[1]=zeros arg=out:out:i32[64]

extern "C" __global__ void sum(const int *in, int *partial, unsigned *count, int *out)
{
    __shared__ bool last;
    unsigned t = threadIdx.x;
    partial[blockIdx.x * 64 + t] = in[blockIdx.x * 64 + t] * 2;
    __threadfence();
    __syncthreads();
    if (t == 0)
        last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        __threadfence();
        int total = 0;
        // The neighbor's values: what another thread has fenced.
        for (unsigned block = 0; block < gridDim.x; block++)
            total += partial[block * 64 + (t + 1) % 64];
        out[t] = total;
    }
}
