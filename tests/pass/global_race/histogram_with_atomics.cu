// Histogram of 1024 bytes in 16 bins, by relaxed atomics.
// Result: bins[v] = how many elements of in are v
// Corpus: g07
//@launch: kernel=histogram grid=8 block=128 arg=in:in:u8[1024]=randint(0,15,seed=0) arg=bins:inout:u32[16]=zeros

extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&bins[in[i]], 1);
}
