// Sums each of the first n values and its successor. The shuffle stands inside the branch, but its mask names all 32
// lanes; 12 of them never come, and lane 19 reads from one of these. Hardware gives an undefined value, or hangs.
// Corpus: s04
//@launch: kernel=sum_pairs grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32] arg=n:u32=20

extern "C" __global__ void sum_pairs(const int *in, int *out, unsigned n)
{
    unsigned t = threadIdx.x;
    int value = in[t];
    if (t < n)
        value += __shfl_down_sync(0xffffffff, value, 1); //~ lanes
    out[t] = value;
}
