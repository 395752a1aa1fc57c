// Histogram of bytes: shared-memory atomics per block, merged with global atomics; and a version
// in which the lanes of a warp that meet in one bin add once.
// Result: bins[b] = how many of in[0..n] are equal to b (bins start at 0)
//@arch: 75+
//@launch: kernel=histogram grid=4 block=256 arg=in:u8[10000]=randint(0,255,seed=0) arg=bins:u32[256]=0 arg=n:u32=10000
//@launch: kernel=histogram_aggregated grid=4 block=256 arg=in:u8[10000]=randint(0,15,seed=1) arg=bins:u32[256]=0 arg=n:u32=10000

extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, unsigned n)
{
    __shared__ unsigned local[256];
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x)
        local[b] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[in[i]], 1);
    __syncthreads();
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x)
        if (local[b] != 0)
            atomicAdd(&bins[b], local[b]);
}

extern "C" __global__ void histogram_aggregated(const unsigned char *in, unsigned *bins, unsigned n)
{
    unsigned lane = threadIdx.x % 32;
    // The bound is the block's, so all lanes of a warp take the same number of turns and agree on the mask.
    for (unsigned first = blockIdx.x * blockDim.x; first < n; first += gridDim.x * blockDim.x) {
        unsigned i = first + threadIdx.x;
        unsigned inside = __ballot_sync(0xffffffff, i < n);
        if (i < n) {
            unsigned bin = in[i];
            unsigned peers = __match_any_sync(inside, bin);
            unsigned leader = __ffs(peers) - 1;
            if (lane == leader)
                atomicAdd(&bins[bin], __popc(peers));
        }
    }
}
