// Blocks take different branches, each with its own number of barriers; within a block all threads take the
// same.
// Result: out[i] = sum of the two or four elements of the block that are 32 (and 64, 96) apart from i
//@launch: kernel=fold grid=4 block=128 arg=in:in:i32[512]=randint(-99,99,seed=0) arg=out:out:i32[512]

extern "C" __global__ void fold(const int *in, int *out)
{
    __shared__ int tile[128];
    unsigned t = threadIdx.x, i = blockIdx.x * 128 + t;
    tile[t] = in[i];
    __syncthreads();
    int sum = tile[t] + tile[(t + 32) % 128];
    if (blockIdx.x % 2 == 1) {
        __syncthreads();
        tile[t] = sum;
        __syncthreads();
        sum += tile[(t + 64) % 128];
    }
    out[i] = sum;
}
