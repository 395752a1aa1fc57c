// A lock as Triton compiles it: one thread tries to take it, the others read the outcome from shared memory, and all threads pass two barriers per
// attempt.
// Result: table[t] = sum over the blocks of in[block][t]
//@launch: kernel=add_rows grid=6 block=64 arg=in:in:i32[6x64]=randint(-99,99,seed=0) arg=lock:inout:i32[1]=zeros arg=table:inout:i32[64]=zeros
//@launch: kernel=add_rows grid=64 block=1024 arg=in:in:i32[64x1024]=randint(-99,99,seed=0) arg=lock:inout:i32[1]=zeros arg=table:inout:i32[1024]=zeros
//@schedules: 12

extern "C" __global__ void add_rows(const int *in, int *lock, int *table)
{
    __shared__ int seen;
    unsigned t = threadIdx.x;
    int before;
    do {
        if (t == 0) {
            int old;
            asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(lock) : "memory");
            seen = old;
        }
        __syncthreads();
        before = seen;
        __syncthreads();
    } while (before != 0);
    table[t] += in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    if (t == 0)
        asm volatile("atom.acq_rel.gpu.global.exch.b32 _, [%0], 0;" ::"l"(lock) : "memory");
}
