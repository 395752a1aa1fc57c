// Sum by a grid-stride loop, shuffles, and one atomic per warp.
// Result: out[0] = sum of in
//@launch: kernel=sum grid=3 block=96 arg=in:in:i32[1000]=randint(-99,99,seed=0) arg=out:inout:i32[1]=zeros arg=n:u32=1000

extern "C" __global__ void sum(const int *in, int *out, unsigned n)
{
    int total = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        total += in[i];
    for (int offset = 16; offset > 0; offset /= 2)
        total += __shfl_down_sync(0xffffffff, total, offset);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, total);
}
