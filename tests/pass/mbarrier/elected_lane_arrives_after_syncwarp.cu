// 32 lanes store a row, synchronize, and one elected lane arrives for all of them.
//@arch: 90a
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:i32[32]=arange arg=out:out:i32[32]
#include "hopper.cuh"

extern "C" __global__ void hand_over(const int *in, int *out)
{
    __shared__ int row[32];
    __shared__ __align__(8) unsigned long long ready;
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        INIT(&ready, 1);
    __syncthreads();
    if (threadIdx.x < 32) {
        row[lane] = in[lane];
        __syncwarp();
        if (elected())
            ARRIVE(&ready);
    } else {
        WAIT(&ready, 0);
        out[lane] = row[31 - lane];
    }
}
