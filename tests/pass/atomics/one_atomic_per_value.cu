// Histogram in which the lanes of a warp that have the same value are found by match, and their leader adds for
// all.
// Result: bins[v] = how many elements of in are v
//@launch: kernel=histogram grid=2 block=128 arg=in:in:u32[250]=randint(0,9,seed=0) arg=bins:inout:u32[10]=zeros arg=n:u32=250

extern "C" __global__ void histogram(const unsigned *in, unsigned *bins, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    unsigned present = __ballot_sync(0xffffffff, i < n);
    if (i < n) {
        unsigned same = __match_any_sync(present, in[i]);
        if (lane == __ffs(same) - 1)
            atomicAdd(&bins[in[i]], __popc(same));
    }
}
