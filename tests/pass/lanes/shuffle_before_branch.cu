// Sums each of the first n values and its successor. The whole warp shuffles; the branch stands after it.
// Corpus: s04
//@launch: kernel=sum_pairs grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32] arg=n:u32=20

extern "C" __global__ void sum_pairs(const int *in, int *out, unsigned n)
{
    unsigned t = threadIdx.x;
    int value = in[t];
    int next = __shfl_down_sync(0xffffffff, value, 1);
    if (t < n)
        value += next;
    out[t] = value;
}
