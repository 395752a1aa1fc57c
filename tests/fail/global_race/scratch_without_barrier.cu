// Reverses a block's numbers through global memory. Threads of one block need a barrier there too: a warp reads
// slots that the others have not stored yet.
// Corpus: g06
//@launch: kernel=reverse grid=1 block=128 arg=scratch:inout:i32[128]=zeros arg=out:out:i32[128]

extern "C" __global__ void reverse(int *scratch, int *out)
{
    unsigned t = threadIdx.x;
    scratch[t] = t; //~ global-race
    out[t] = scratch[127 - t]; //~ global-race
}
