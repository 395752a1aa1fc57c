// Each of 8 blocks doubles its 128 elements and adds those of the block before it, both computed from the
// input.
// Result: out[i] = 2 * in[i] + (i >= 128 ? 2 * in[i - 128] : 0)
// Corpus: g01
//@launch: kernel=add_previous grid=8 block=128 arg=in:in:i32[1024]=randint(-99,99,seed=0) arg=out:out:i32[1024]

extern "C" __global__ void add_previous(const int *in, int *out)
{
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    int sum = 2 * in[i];
    if (blockIdx.x > 0)
        sum += 2 * in[i - 128];
    out[i] = sum;
}
