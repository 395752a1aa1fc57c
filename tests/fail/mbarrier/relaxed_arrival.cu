// The producer's arrival is relaxed: it counts, but it orders none of the producer's stores.
//@arch: 90a
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:i32[32]=arange arg=out:out:i32[32]
#include "hopper.cuh"

extern "C" __global__ void hand_over(const int *in, int *out)
{
    __shared__ int row[32];
    __shared__ __align__(8) unsigned long long ready;
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        INIT(&ready, 32);
    __syncthreads();
    if (threadIdx.x < 32) {
        row[lane] = in[lane]; //~ shared-race
        asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(SHARED(&ready)) : "memory");
    } else {
        WAIT(&ready, 0);
        out[lane] = row[31 - lane]; //~ shared-race
    }
}
