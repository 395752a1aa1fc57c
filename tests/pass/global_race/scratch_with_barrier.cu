// Reverses a block's numbers through global memory, with a barrier between the writes and the reads.
// Result: out[i] = 127 - i
// Corpus: g06
//@launch: kernel=reverse grid=1 block=128 arg=scratch:out:i32[128] arg=out:out:i32[128]

extern "C" __global__ void reverse(int *scratch, int *out)
{
    unsigned t = threadIdx.x;
    scratch[t] = t;
    __syncthreads();
    out[t] = scratch[127 - t];
}
