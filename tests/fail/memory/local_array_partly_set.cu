// Counts digits in a local array of which only the first n counters are cleared. Hardware counts on from what the stack
// held.
//@launch: kernel=count_digits grid=1 block=32 arg=number:in:u32[32]=randint(0,99999999,seed=0) arg=nines:out:u32[32] arg=n:u32=9

extern "C" __global__ void count_digits(const unsigned *number, unsigned *nines, unsigned n)
{
    unsigned count[10];
#pragma unroll 1
    for (unsigned i = 0; i < n; i++)
        count[i] = 0;
    for (unsigned x = number[threadIdx.x]; x != 0; x /= 10)
        count[x % 10]++;
    nines[threadIdx.x] = count[9]; //~ uninitialized
}
