// Three blocks take two of three locks each, their own first: each may hold one and wait for the next for ever. Each lock alone
// orders what it guards, so only the order of the blocks shows the mistake: all three between their first and their second lock.
//@launch: kernel=dine grid=3 block=32 arg=locks:inout:u32[3]=zeros arg=meals:inout:u32[3]=zeros
//@explore: 2

__device__ void take(unsigned *lock)
{
    while (atomicCAS(lock, 0, 1) != 0) //~ deadlock
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
    take(&locks[own]);
    take(&locks[next]);
    meals[own] += 1;
    give(&locks[next]);
    give(&locks[own]);
}
