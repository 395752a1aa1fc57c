// Counts the positive elements of a block with atomics in shared memory. Each thread reads the counter by a
// plain load before the others have added to it, and gets a count in the making.
// Corpus: r14
//@launch: kernel=count_positive grid=1 block=256 arg=in:in:i32[256]=randint(-9,9,seed=0) arg=out:out:i32[256]

extern "C" __global__ void count_positive(const int *in, int *out)
{
    __shared__ int count;
    unsigned t = threadIdx.x;
    if (t == 0)
        count = 0;
    __syncthreads();
    if (in[t] > 0)
        atomicAdd(&count, 1); //~ shared-race
    out[t] = count; //~ shared-race
}
