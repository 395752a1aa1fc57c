// Counts the threads of 4 blocks in one counter with device-scope atomics.
// Result: count[0] = 128
// Corpus: g03
//@launch: kernel=count_threads grid=4 block=32 arg=count:inout:i32[1]=zeros

extern "C" __global__ void count_threads(int *count)
{
    atomicAdd(count, 1);
}
