// grid.sync() in a launch that is said not to be cooperative: there is no workspace, and cooperative groups trap.
//@launch: kernel=reverse grid=4 block=64 cooperative=false arg=in:in:f32[256]=randn(seed=0) arg=tmp:scratch:f32[256] arg=out:out:f32[256]
#include <cooperative_groups.h>

extern "C" __global__ void reverse(const float *in, float *tmp, float *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    tmp[i] = in[i];
    cooperative_groups::this_grid().sync(); //~ trap
    out[i] = tmp[255 - i];
}
