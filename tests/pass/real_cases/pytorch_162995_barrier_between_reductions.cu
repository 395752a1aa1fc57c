// After pytorch/pytorch pull request 162995 (reduce_kernel): a block sums over y and then over x, both through the same
// shared memory.
// A barrier stands between the two.
//@launch: kernel=block_sum grid=1 block=64,4 arg=in:in:f32[4x64]=randn(seed=0) arg=out:out:f32[1]

__device__ float sum_over_y(float value, float *shared)
{
    shared[threadIdx.y * 64 + threadIdx.x] = value;
    for (unsigned offset = 2; offset > 0; offset /= 2) {
        __syncthreads();
        if (threadIdx.y < offset) {
            value += shared[(threadIdx.y + offset) * 64 + threadIdx.x];
            shared[threadIdx.y * 64 + threadIdx.x] = value;
        }
    }
    return value;
}

__device__ float sum_over_x(float value, float *shared)
{
    shared[threadIdx.y * 64 + threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x < 32)
        value += shared[threadIdx.y * 64 + threadIdx.x + 32];
    for (unsigned offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

extern "C" __global__ void block_sum(const float *in, float *out)
{
    __shared__ float shared[256];
    float sum = sum_over_y(in[threadIdx.y * 64 + threadIdx.x], shared);
    __syncthreads();
    sum = sum_over_x(sum, shared);
    if (threadIdx.x == 0 && threadIdx.y == 0)
        *out = sum;
}
