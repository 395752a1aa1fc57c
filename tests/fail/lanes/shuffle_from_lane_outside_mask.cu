// The lower half of a warp reads the values of the upper half, which takes no part in the shuffle: the source lane is
// inactive. Hardware gives an undefined value.
// Corpus: s05
//@launch: kernel=swap_halves grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32]

extern "C" __global__ void swap_halves(const int *in, int *out)
{
    unsigned t = threadIdx.x;
    int value = in[t];
    if (t < 16)
        value = __shfl_sync(0xffff, value, t + 16); //~ lanes
    out[t] = value;
}
