// The first block to come shall initialize the table. Two blocks can both read 0 and both initialize it; all write the same
// flag, and each also read it.
//@launch: kernel=initialize grid=4 block=32 arg=claimed:inout:i32[1]=zeros arg=table:inout:i32[32]=zeros

extern "C" __global__ void initialize(int *claimed, int *table)
{
    if (*claimed == 0) { //~ global-race
        if (threadIdx.x == 0)
            *claimed = 1; //~ global-race
        table[threadIdx.x] = threadIdx.x; //~ note: global-race
    }
}
