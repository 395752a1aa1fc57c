// __syncthreads_count, _and and _or vote and order memory like __syncthreads itself.
// Result: out[i] = in[127 - i] + 1000 * (how many elements are positive), and -1 in a block without any
//@launch: kernel=reverse_and_count grid=2 block=128 arg=in:in:i32[256]=randint(-9,9,seed=0) arg=out:out:i32[256]

extern "C" __global__ void reverse_and_count(const int *in, int *out)
{
    __shared__ int tile[128];
    unsigned t = threadIdx.x, first = blockIdx.x * 128;
    int value = in[first + t];
    tile[t] = value;
    int positive = __syncthreads_count(value > 0);
    value = tile[127 - t];
    int any = __syncthreads_or(value > 0);
    tile[t] = any ? value + 1000 * positive : -1;
    __syncthreads_and(1);
    out[first + 127 - t] = tile[127 - t];
}
