// Each of 8 blocks stores a partial sum; the one that counts last adds them up. A fence stands on either side
// of the counter.
// Result: out[0] = sum of in
// Corpus: g04
//@launch: kernel=sum grid=8 block=128 arg=in:in:i32[1024]=randint(-99,99,seed=0) arg=partial:out:i32[8] arg=count:inout:u32[1]=zeros arg=out:out:i32[1]

extern "C" __global__ void sum(const int *in, int *partial, unsigned *count, int *out)
{
    __shared__ int of_block;
    if (threadIdx.x == 0)
        of_block = 0;
    __syncthreads();
    atomicAdd(&of_block, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = of_block;
        __threadfence();
        if (atomicAdd(count, 1) == gridDim.x - 1) {
            __threadfence();
            int total = 0;
            for (unsigned block = 0; block < gridDim.x; block++)
                total += partial[block];
            out[0] = total;
        }
    }
}
