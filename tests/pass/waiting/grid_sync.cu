// Blocks reverse an array twice, with grid.sync() between writes and reads.
// Result: out = in
//@launch: kernel=reverse_twice grid=4 block=64 arg=in:in:i32[256]=randint(-9,9,seed=0) arg=tmp:scratch:i32[256] arg=out:out:i32[256]
//@launch: kernel=reverse_twice grid=48 block=1024 arg=in:in:i32[49152]=randint(-9,9,seed=0) arg=tmp:scratch:i32[49152] arg=out:out:i32[49152]
//@schedules: 12
#include <cooperative_groups.h>

extern "C" __global__ void reverse_twice(const int *in, int *tmp, int *out)
{
    unsigned size = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    tmp[i] = in[size - 1 - i];
    cooperative_groups::this_grid().sync();
    int value = tmp[size - 1 - i];
    cooperative_groups::this_grid().sync();
    out[i] = value;
}
