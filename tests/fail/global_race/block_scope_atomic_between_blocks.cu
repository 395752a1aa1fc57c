// Counts the threads of 4 blocks in one counter with block-scope atomics. They are atomic among the threads of
// one block only: two blocks on different SMs may add to the same old value, and counts are lost.
// Corpus: g03
//@launch: kernel=count_threads grid=4 block=32 arg=count:inout:i32[1]=zeros

extern "C" __global__ void count_threads(int *count)
{
    atomicAdd_block(count, 1); //~ global-race
}
