// Divergence: loops of different length per lane, nested conditions, early return, and lanes of one warp that wait
// for each other (independent thread scheduling: without forward progress of both sides it hangs).
// Result: collatz    out[i] = number of steps from i + 1 to 1
//         nested     out[i] = the branch taken, see the code
//         turns      out[i] = i: each lane waits until the lanes below it have had their turn
//@arch: 75+
//@launch: kernel=collatz grid=2 block=128 arg=out:u32[256]
//@launch: kernel=nested grid=1 block=64 arg=in:i32[64]=iota(-32) arg=out:i32[64]
//@launch: kernel=turns grid=1 block=32 arg=turn:u32[1]=0 arg=out:u32[32]

extern "C" __global__ void collatz(unsigned *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
    for (unsigned long long n = i + 1; n != 1; steps++)
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    out[i] = steps;
}

extern "C" __global__ void nested(const int *in, int *out)
{
    int x = in[threadIdx.x];
    if (x == 7) {
        out[threadIdx.x] = 777;
        return;
    }
    int result;
    if (x < 0) {
        if (x % 2 == 0)
            result = 1;
        else if (x < -16)
            result = 2;
        else
            result = 3;
    } else {
        result = 10;
        for (int i = 0; i < x; i++) {
            if (i == 5)
                continue;
            if (i == 20)
                break;
            result += i;
        }
    }
    out[threadIdx.x] = result;
}

extern "C" __global__ void turns(unsigned *turn, unsigned *out)
{
    volatile unsigned *now = turn;
    unsigned lane = threadIdx.x;
    while (*now != lane) {
    }
    out[lane] = *now;
    __threadfence();
    *now = lane + 1;
}
