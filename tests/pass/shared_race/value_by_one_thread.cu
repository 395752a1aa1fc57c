// One thread stores a value into a slot that all read behind a barrier.
// Result: out[i] = 7
// Corpus: r16
//@launch: kernel=spread grid=1 block=64 arg=value:i32=7 arg=out:out:i32[64]

extern "C" __global__ void spread(int value, int *out)
{
    __shared__ int slot;
    if (threadIdx.x == 0)
        slot = value;
    __syncthreads();
    out[threadIdx.x] = slot;
}
