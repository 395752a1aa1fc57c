// The last thread of the block adds its share and reads the total. It waits for no one: the shares of other warps may come later.
//@launch: kernel=total grid=1 block=64 arg=out:out:i32[1]

extern "C" __global__ void total(int *out)
{
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, threadIdx.x); //~ shared-race
    if (threadIdx.x == 63)
        out[0] = sum; //~ shared-race
}
