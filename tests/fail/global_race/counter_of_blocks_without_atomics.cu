// Counts the blocks of a grid. Two blocks that read the counter before either has written it both write 1: an update is
// lost. The values written are equal, which hides nothing: every block reads what another one writes.
//@launch: kernel=count grid=8 block=32 arg=n:inout:i32[1]=zeros

extern "C" __global__ void count(int *n)
{
    if (threadIdx.x == 0)
        *n += 1; //~ global-race
}
