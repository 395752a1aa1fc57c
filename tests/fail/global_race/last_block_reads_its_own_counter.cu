// Every block adds to the sums by atomics, the last one then reads them. Its own atomics come last at each address, but those of
// the others are not ordered before the reads: there is no fence.
//@launch: kernel=sums grid=4 block=32 arg=in:in:f32[128]=ones arg=sum:inout:f32[32]=zeros arg=count:inout:u32[1]=zeros arg=out:out:f32[32]

extern "C" __global__ void sums(const float *in, float *sum, unsigned *count, float *out)
{
    __shared__ bool last;
    unsigned t = threadIdx.x;
    atomicAdd(&sum[t], in[blockIdx.x * 32 + t]); //~ global-race
    __syncthreads();
    if (t == 0)
        last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last)
        out[t] = sum[t]; //~ global-race
}
