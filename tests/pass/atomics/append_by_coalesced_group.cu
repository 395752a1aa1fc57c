// Counts and sums the positive elements; the threads that are together reserve their places with one atomic.
// Result: count[0] = how many are positive; out[0 ...] = those, in any order; sum[0] = their sum
//@launch: kernel=filter grid=4 block=128 arg=in:in:i32[512]=randint(-99,99,seed=2) arg=out:inout:i32[512]=zeros arg=count:inout:u32[1]=zeros arg=sum:inout:i32[1]=zeros
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void filter(const int *in, int *out, unsigned *count, int *sum)
{
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    if (value <= 0)
        return;
    cg::coalesced_group together = cg::coalesced_threads();
    unsigned first = 0;
    if (together.thread_rank() == 0)
        first = atomicAdd(count, together.size());
    out[together.shfl(first, 0) + together.thread_rank()] = value;
    int of_group = cg::reduce(together, value, cg::plus<int>());
    if (together.thread_rank() == 0)
        atomicAdd(sum, of_group);
}
