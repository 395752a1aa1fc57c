// Two blocks take two locks, each block in another order. If each gets its first lock before the other one gets its second,
// both wait for ever. One after the other they finish, so only some orders show it.
//@launch: kernel=transfer grid=2 block=32 arg=locks:inout:u32[2]=zeros arg=accounts:inout:i32[2]=zeros

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

extern "C" __global__ void transfer(unsigned *locks, int *accounts)
{
    unsigned from = blockIdx.x, to = 1 - from;
    if (threadIdx.x != 0)
        return;
    for (int round = 0; round < 8; round++) {
        take(&locks[from]);
        take(&locks[to]);
        accounts[from] -= 1;
        accounts[to] += 1;
        give(&locks[to]);
        give(&locks[from]);
    }
}
