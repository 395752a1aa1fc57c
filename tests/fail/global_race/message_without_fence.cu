// Block 0 sends a value to block 1: data first, then a flag. Without fences the store of the flag may be seen
// before the store of the data, and block 1 then reads the old value.
// Corpus: g02
//@launch: kernel=message grid=2 block=32 arg=data:inout:i32[1]=zeros arg=flag:inout:i32[1]=zeros arg=out:out:i32[1]

extern "C" __global__ void message(int *data, volatile int *flag, int *out)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        data[0] = 42; //~ global-race
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        out[0] = data[0]; //~ global-race
    }
}
