// Positive values are counted by those who hold one; the mask is the ballot on the branch's own condition.
// Corpus: s06
//@launch: kernel=count_large grid=1 block=32 arg=in:in:i32[32]=randint(-2,3,seed=0) arg=out:out:i32[32]

extern "C" __global__ void count_large(const int *in, int *out)
{
    int value = in[threadIdx.x], count = 0;
    unsigned mask = __ballot_sync(0xffffffff, value > 0);
    if (value > 0)
        count = __popc(__ballot_sync(mask, value > 1));
    out[threadIdx.x] = count;
}
