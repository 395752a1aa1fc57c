// Block 0 sends a value to block 1: data first, then a flag, with a fence on either side of the flag.
// Result: out[0] = 42
// Corpus: g02
//@launch: kernel=message grid=2 block=32 arg=data:inout:i32[1]=zeros arg=flag:inout:i32[1]=zeros arg=out:out:i32[1]

extern "C" __global__ void message(int *data, volatile int *flag, int *out)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        data[0] = 42;
        __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        __threadfence();
        out[0] = data[0];
    }
}
