// As a way to count all lanes of a branch this is wrong: __activemask() says who happens to be here, and may be any
// part of the branch. As a way to work with whoever is here it is legal, so no check may report anything. That the
// counts depend on convergence is a value error; only a reference shows it.
// Corpus: s06
//@launch: kernel=count_large grid=1 block=32 arg=in:in:i32[32]=randint(-2,3,seed=0) arg=out:out:i32[32]

extern "C" __global__ void count_large(const int *in, int *out)
{
    int value = in[threadIdx.x], count = 0;
    if (value > 0)
        count = __popc(__ballot_sync(__activemask(), value > 1));
    out[threadIdx.x] = count;
}
