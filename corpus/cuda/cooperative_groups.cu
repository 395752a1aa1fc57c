// Cooperative groups: thread block, tiles of every size, coalesced and partitioned groups, group reductions and scans.
// Result: see each kernel
//@arch: 75+
//@launch: kernel=cg_block_sum grid=1 block=256 arg=in:i32[256]=randint(-99,99,seed=0) arg=out:i32[1]
//@launch: kernel=cg_tile_sums grid=1 block=128 arg=in:i32[128]=randint(-99,99,seed=1) arg=by32:i32[4] arg=by8:i32[16]
//@launch: kernel=cg_filter grid=4 block=128 arg=in:i32[512]=randint(-99,99,seed=2) arg=out:inout:i32[512] arg=count:u32[1]=0
//@launch: kernel=cg_tile_scan grid=1 block=64 arg=in:i32[64]=randint(0,9,seed=3) arg=out:i32[64]
//@launch: kernel=cg_labels grid=1 block=64 arg=in:i32[64]=randint(0,4,seed=4) arg=out:u32[64]
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

// out[0] = sum of the block's 256 elements.
extern "C" __global__ void cg_block_sum(const int *in, int *out)
{
    __shared__ int of_warp[8];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int sum = cg::reduce(warp, in[block.thread_rank()], cg::plus<int>());
    if (warp.thread_rank() == 0)
        of_warp[warp.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        sum = 0;
        for (int value : of_warp)
            sum += value;
        out[0] = sum;
    }
}

// by32[t]: sum of the t-th 32 elements; by8[t]: maximum of the t-th 8 elements.
extern "C" __global__ void cg_tile_sums(const int *in, int *by32, int *by8)
{
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    int value = in[block.thread_rank()];
    int sum = value;
    for (unsigned offset = warp.size() / 2; offset > 0; offset /= 2)
        sum += warp.shfl_down(sum, offset);
    if (warp.thread_rank() == 0)
        by32[warp.meta_group_rank()] = sum;
    int top = cg::reduce(eight, value, cg::greater<int>());
    if (eight.thread_rank() == 0)
        by8[block.thread_rank() / 8] = top;
}

// The positive elements, in no particular order, and how many; one atomic per coalesced group.
extern "C" __global__ void cg_filter(const int *in, int *out, unsigned *count)
{
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    if (value > 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        unsigned first = 0;
        if (active.thread_rank() == 0)
            first = atomicAdd(count, active.size());
        out[active.shfl(first, 0) + active.thread_rank()] = value;
    }
}

// Inclusive prefix sums within each 16 elements.
extern "C" __global__ void cg_tile_scan(const int *in, int *out)
{
    auto sixteen = cg::tiled_partition<16>(cg::this_thread_block());
    unsigned i = threadIdx.x;
    out[i] = cg::inclusive_scan(sixteen, in[i], cg::plus<int>());
}

// out[i]: how many elements of the same warp have the same value as element i.
extern "C" __global__ void cg_labels(const int *in, unsigned *out)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto same = cg::labeled_partition(warp, in[threadIdx.x]);
    out[threadIdx.x] = same.size();
}
