// Counts the positive elements of a block with atomics in shared memory; a barrier follows the clearing.
// Result: out[0] = how many elements of in are positive
// Corpus: r15
//@launch: kernel=count_positive grid=1 block=256 arg=in:in:i32[256]=randint(-9,9,seed=0) arg=out:out:i32[1]

extern "C" __global__ void count_positive(const int *in, int *out)
{
    __shared__ int count;
    unsigned t = threadIdx.x;
    if (t == 0)
        count = 0;
    __syncthreads();
    if (in[t] > 0)
        atomicAdd(&count, 1);
    __syncthreads();
    if (t == 0)
        out[0] = count;
}
