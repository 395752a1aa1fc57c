// Cooperative-groups tiles of 16 transpose 4 x 4 blocks in shared memory, synchronized by tile.sync alone.
// Result: out[g][c][r] = in[g][r][c]
//@launch: kernel=transpose_blocks grid=1 block=64 arg=in:in:i32[64]=iota arg=out:out:i32[64]
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void transpose_blocks(const int *in, int *out)
{
    __shared__ int blocks[4][4][4];
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    unsigned group = tile.meta_group_rank(), row = tile.thread_rank() / 4, column = tile.thread_rank() % 4;
    blocks[group][row][column] = in[threadIdx.x];
    tile.sync();
    out[threadIdx.x] = blocks[group][column][row];
}
