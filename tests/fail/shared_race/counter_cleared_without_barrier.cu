// Counts the positive elements of a block with atomics in shared memory. Thread 0 clears the counter without a
// barrier behind it: what other warps added before is lost, or was added to whatever the memory held.
// Corpus: r15
//@launch: kernel=count_positive grid=1 block=256 arg=in:in:i32[256]=randint(-9,9,seed=0) arg=out:out:i32[1]

extern "C" __global__ void count_positive(const int *in, int *out)
{
    __shared__ int count;
    unsigned t = threadIdx.x;
    if (t == 0)
        count = 0; //~ shared-race
    if (in[t] > 0)
        atomicAdd(&count, 1); //~ shared-race
    __syncthreads();
    if (t == 0)
        out[0] = count;
}
