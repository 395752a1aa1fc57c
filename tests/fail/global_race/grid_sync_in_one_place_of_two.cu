// Blocks exchange tiles twice. The first exchange has grid.sync() between writes and reads; before the second, blocks overwrite
// what others may still read.
//@launch: kernel=reverse grid=4 block=64 arg=in:in:f32[256]=randn(seed=0) arg=tmp:scratch:f32[256] arg=out:out:f32[256]
#include <cooperative_groups.h>

extern "C" __global__ void reverse(const float *in, float *tmp, float *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    tmp[i] = in[i];
    cooperative_groups::this_grid().sync();
    float first = tmp[255 - i]; //~ global-race
    tmp[i] = first;             //~ global-race
    cooperative_groups::this_grid().sync();
    out[i] = tmp[255 - i] + first;
}
