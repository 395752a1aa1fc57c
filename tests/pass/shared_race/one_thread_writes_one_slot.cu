// Hands a thread number to thread 0 through one slot of shared memory that one thread writes.
// Result: out[0] = 63
// Corpus: r03
//@launch: kernel=winner grid=1 block=64 arg=out:out:i32[1]

extern "C" __global__ void winner(int *out)
{
    __shared__ int slot;
    if (threadIdx.x == 63)
        slot = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0)
        out[0] = slot;
}
