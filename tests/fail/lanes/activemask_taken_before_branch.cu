// Positive values are counted by those who hold one. The mask was taken before the branch and names all 32 lanes; those
// with another value never come to the ballot. The behavior is undefined; hardware may hang.
// Corpus: s06
//@launch: kernel=count_large grid=1 block=32 arg=in:in:i32[32]=randint(-2,3,seed=0) arg=out:out:i32[32]

extern "C" __global__ void count_large(const int *in, int *out)
{
    int value = in[threadIdx.x], count = 0;
    unsigned mask = __activemask();
    if (value > 0)
        count = __popc(__ballot_sync(mask, value > 1)); //~ lanes
    out[threadIdx.x] = count;
}
