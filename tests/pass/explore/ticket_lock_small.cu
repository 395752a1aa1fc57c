// A ticket lock: blocks are served in the order in which they came, whatever it is.
//@launch: kernel=add grid=3 block=32 arg=lock:inout:u32[2]=zeros arg=sum:inout:u32[1]=zeros
//@explore: 3

extern "C" __global__ void add(unsigned *lock, unsigned *sum)
{
    if (threadIdx.x != 0)
        return;
    unsigned ticket = atomicAdd(&lock[0], 1);
    while (atomicAdd(&lock[1], 0) != ticket)
        ;
    __threadfence();
    *sum += blockIdx.x + 1;
    __threadfence();
    atomicAdd(&lock[1], 1);
}
