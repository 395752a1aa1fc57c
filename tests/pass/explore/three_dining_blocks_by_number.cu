// Three blocks take two of three locks each, the one with the lower number first: nobody waits in a circle.
//@launch: kernel=dine grid=3 block=32 arg=locks:inout:u32[3]=zeros arg=meals:inout:u32[3]=zeros
//@explore: 2

__device__ void take(unsigned *lock)
{
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    __threadfence();
}

__device__ void give(unsigned *lock)
{
    __threadfence();
    atomicExch(lock, 0);
}

extern "C" __global__ void dine(unsigned *locks, unsigned *meals)
{
    if (threadIdx.x != 0)
        return;
    unsigned own = blockIdx.x, next = (own + 1) % 3;
    unsigned low = own < next ? own : next, high = own < next ? next : own;
    take(&locks[low]);
    take(&locks[high]);
    meals[own] += 1;
    give(&locks[high]);
    give(&locks[low]);
}
