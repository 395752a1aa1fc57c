// cuda::barrier of a block: arrive with a token, do other work, wait; then arrive_and_wait.
// Result: out[i] = in[127 - i] + in[i]
//@launch: kernel=reverse_add grid=1 block=128 arg=in:in:i32[128]=randint(-99,99,seed=0) arg=out:out:i32[128]
#include <cuda/barrier>

extern "C" __global__ void reverse_add(const int *in, int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> all_here;
    __shared__ int tile[128];
    unsigned t = threadIdx.x;
    if (t == 0)
        init(&all_here, blockDim.x);
    __syncthreads();
    tile[t] = in[t];
    auto token = all_here.arrive();
    int own = in[t];
    all_here.wait(static_cast<decltype(token) &&>(token));
    int sum = own + tile[127 - t];
    all_here.arrive_and_wait();
    tile[t ^ 32] = sum;
    all_here.arrive_and_wait();
    out[t ^ 1] = tile[t ^ 33];
}
