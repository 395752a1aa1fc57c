// Prefix sums over all blocks in one pass: a block publishes its total, looks back over its predecessors until
// one of them has published its prefix, and publishes its own. State and value travel in one 64-bit word.
// Result: out[i] = in[0] + ... + in[i]
//@launch: kernel=scan grid=8 block=64 arg=in:in:i32[512]=randint(-99,99,seed=0) arg=out:out:i32[512] arg=states:inout:u64[8]=zeros arg=next:inout:u32[1]=zeros

enum : unsigned { NOTHING, TOTAL, PREFIX };

__device__ void publish(unsigned long long *state, unsigned kind, int value)
{
    unsigned long long word = (unsigned long long)kind << 32 | (unsigned)value;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(state), "l"(word) : "memory");
}

extern "C" __global__ void scan(const int *in, int *out, unsigned long long *states, unsigned *next)
{
    __shared__ int tile[64];
    __shared__ unsigned block;
    __shared__ int before;
    unsigned t = threadIdx.x;
    // Numbers in the order of starting: every predecessor is running or done.
    if (t == 0)
        block = atomicAdd(next, 1);
    __syncthreads();
    int sum = in[block * 64 + t];
    for (unsigned distance = 1; distance < 64; distance *= 2) {
        tile[t] = sum;
        __syncthreads();
        sum += t >= distance ? tile[t - distance] : 0;
        __syncthreads();
    }
    if (t == 63) {
        publish(&states[block], block == 0 ? PREFIX : TOTAL, sum);
        int prefix = 0;
        for (int earlier = (int)block - 1; earlier >= 0; earlier--) {
            unsigned long long word = 0;
            while (word >> 32 == NOTHING)
                asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(&states[earlier]) : "memory");
            prefix += (int)(unsigned)word;
            if (word >> 32 == PREFIX)
                break;
        }
        if (block > 0)
            publish(&states[block], PREFIX, prefix + sum);
        before = prefix;
    }
    __syncthreads();
    out[block * 64 + t] = before + sum;
}
