// Each of 8 blocks doubles its 128 elements into `scaled` and adds those of the block before it. Nothing orders
// blocks within a launch: the previous block's elements may not be there yet.
// Corpus: g01
//@launch: kernel=add_previous grid=8 block=128 arg=in:in:i32[1024]=randint(-99,99,seed=0) arg=scaled:inout:i32[1024]=zeros arg=out:out:i32[1024]

extern "C" __global__ void add_previous(const int *in, int *scaled, int *out)
{
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    scaled[i] = 2 * in[i]; //~ global-race
    int sum = 2 * in[i];
    if (blockIdx.x > 0)
        sum += scaled[i - 128]; //~ global-race
    out[i] = sum;
}
