// Lanes leave a loop one after another; those that stay find each other anew by ballot before every shuffle.
// Result: out[i] = how many steps of the Collatz sequence in[i] needs to reach 1; slowest[w] = largest of the
//         warp
//@launch: kernel=collatz grid=1 block=64 arg=in:in:u32[64]=iota(1) arg=out:out:u32[64] arg=slowest:out:u32[2]

extern "C" __global__ void collatz(const unsigned *in, unsigned *out, unsigned *slowest)
{
    unsigned value = in[threadIdx.x], steps = 0, last = 0, mask = 0xffffffff;
    while ((mask = __ballot_sync(mask, value != 1)) != 0) {
        if (value == 1)
            break;
        value = value % 2 == 0 ? value / 2 : 3 * value + 1;
        steps++;
        // All that are still here have made the same number of steps.
        last = __shfl_sync(mask, steps, __ffs(mask) - 1);
    }
    out[threadIdx.x] = last;
    unsigned top = steps;
    for (int distance = 16; distance > 0; distance /= 2)
        top = max(top, __shfl_xor_sync(0xffffffff, top, distance));
    if (threadIdx.x % 32 == 0)
        slowest[threadIdx.x / 32] = top;
}
