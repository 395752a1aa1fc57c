// As the last block of a reduction, but without a fence between the ticket and the reads. The fence that each thread executed
// before its own ticket comes too early: reads behind the ticket may be served from what the block saw before.
//@launch: kernel=sum grid=8 block=64 arg=in:in:i32[512]=randint(-99,99,seed=0) arg=partial:out:i32[512] arg=count:inout:u32[1]=zeros arg=out:out:i32[64]

extern "C" __global__ void sum(const int *in, int *partial, unsigned *count, int *out)
{
    __shared__ bool last;
    unsigned t = threadIdx.x;
    partial[blockIdx.x * 64 + t] = in[blockIdx.x * 64 + t] * 2; //~ global-race
    __threadfence();
    __syncthreads();
    if (t == 0)
        last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        int total = 0;
        for (unsigned block = 0; block < gridDim.x; block++)
            total += partial[block * 64 + (t + 1) % 64]; //~ global-race
        out[t] = total;
    }
}
