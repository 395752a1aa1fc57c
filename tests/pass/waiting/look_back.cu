// Decoupled look-back: a block publishes its sum; its first warp reads the states of 32 predecessors at once until all are valid, and
// continues before them until one of them has published its prefix.
// Result: out[i] = in[0] + ... + in[i]
//@launch: kernel=scan grid=5 block=64 arg=in:in:i32[320]=randint(-99,99,seed=0) arg=out:out:i32[320] arg=states:inout:u64[5]=zeros arg=next:inout:u32[1]=zeros
//@launch: kernel=scan grid=64 block=1024 arg=in:in:i32[65536]=randint(-99,99,seed=0) arg=out:out:i32[65536] arg=states:inout:u64[64]=zeros arg=next:inout:u32[1]=zeros
//@schedules: 12

enum : unsigned { INVALID, PARTIAL, INCLUSIVE };

__device__ void publish(unsigned long long *state, unsigned kind, int value)
{
    unsigned long long word = (unsigned long long)kind << 32 | (unsigned)value;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(state), "l"(word) : "memory");
}

__device__ int warp_sum(int value)
{
    for (int mask = 16; mask > 0; mask /= 2)
        value += __shfl_xor_sync(~0u, value, mask);
    return value;
}

extern "C" __global__ void scan(const int *in, int *out, unsigned long long *states, unsigned *next)
{
    __shared__ int of_warp[32];
    __shared__ unsigned number;
    __shared__ int before;
    unsigned t = threadIdx.x, lane = t % 32, warps = blockDim.x / 32;
    if (t == 0)
        number = atomicAdd(next, 1);
    __syncthreads();
    unsigned block = number;
    int own = in[block * blockDim.x + t], sum = own;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        int other = __shfl_up_sync(~0u, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == 31)
        of_warp[t / 32] = sum;
    __syncthreads();
    int total = 0;
    for (unsigned warp = 0; warp < warps; warp++) {
        if (warp == t / 32)
            sum += total;
        total += of_warp[warp];
    }
    if (t < 32) {
        if (lane == 0)
            publish(&states[block], block == 0 ? INCLUSIVE : PARTIAL, total);
        int prefix = 0;
        for (int last = (int)block - 1; last >= 0; last -= 32) {
            int earlier = last - (int)lane;
            unsigned long long word;
            do {
                word = (unsigned long long)INCLUSIVE << 32;
                if (earlier >= 0)
                    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(&states[earlier]) : "memory");
            } while (__any_sync(~0u, word >> 32 == INVALID));
            unsigned inclusive = __ballot_sync(~0u, word >> 32 == INCLUSIVE);
            unsigned nearest = inclusive != 0 ? __ffs(inclusive) - 1 : 31;
            prefix += warp_sum(lane <= nearest ? (int)(unsigned)word : 0);
            if (inclusive != 0)
                break;
        }
        if (lane == 0) {
            if (block > 0)
                publish(&states[block], INCLUSIVE, prefix + total);
            before = prefix;
        }
    }
    __syncthreads();
    out[block * blockDim.x + t] = before + sum;
}
