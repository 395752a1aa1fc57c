// Hands the block's winning thread number to thread 0. Every thread stores its own number into the one slot,
// and which store comes last is not defined: any of the 64 numbers may come out.
// Corpus: r03
//@launch: kernel=winner grid=1 block=64 arg=out:out:i32[1]

extern "C" __global__ void winner(int *out)
{
    __shared__ int slot;
    slot = threadIdx.x; //~ shared-race
    __syncthreads();
    if (threadIdx.x == 0)
        out[0] = slot;
}
