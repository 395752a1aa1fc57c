// Prefix sums over all blocks (all resident) in one pass, with the state in one array and the totals and
// prefixes in two others: the values are ordinary words, and fences stand between them and the state.
// Result: out[i] = in[0] + ... + in[i]
//@launch: kernel=scan grid=8 block=32 arg=in:in:i32[256]=randint(-99,99,seed=0) arg=out:out:i32[256] arg=states:inout:u32[8]=zeros arg=totals:inout:i32[8]=zeros arg=prefixes:out:i32[8]

extern "C" __global__ void scan(const int *in, int *out, volatile unsigned *states, int *totals, int *prefixes)
{
    unsigned lane = threadIdx.x, block = blockIdx.x;
    int sum = in[block * 32 + lane];
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        int below = __shfl_up_sync(0xffffffff, sum, distance);
        sum += lane >= distance ? below : 0;
    }
    int before = 0;
    if (lane == 31) {
        totals[block] = sum;
        __threadfence();
        states[block] = 1;
        for (int earlier = (int)block - 1; earlier >= 0; earlier--) {
            unsigned state;
            while ((state = states[earlier]) == 0) {
            }
            __threadfence();
            if (state == 2) {
                before += prefixes[earlier];
                break;
            }
            before += totals[earlier];
        }
        prefixes[block] = before + sum;
        __threadfence();
        states[block] = 2;
    }
    out[block * 32 + lane] = sum + __shfl_sync(0xffffffff, before, 31);
}
