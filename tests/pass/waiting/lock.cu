// Blocks add to a table under a lock. The thread that takes the lock sleeps longer after each failure.
// Result: table[t] = sum over the blocks of in[block][t]
//@launch: kernel=add_rows grid=6 block=64 arg=in:in:i32[6x64]=randint(-99,99,seed=0) arg=lock:inout:i32[1]=zeros arg=table:inout:i32[64]=zeros
//@launch: kernel=add_rows grid=64 block=1024 arg=in:in:i32[64x1024]=randint(-99,99,seed=0) arg=lock:inout:i32[1]=zeros arg=table:inout:i32[1024]=zeros
//@schedules: 12

extern "C" __global__ void add_rows(const int *in, int *lock, int *table)
{
    unsigned t = threadIdx.x;
    if (t == 0) {
        unsigned pause = 8;
        while (atomicCAS(lock, 0, 1) != 0) {
            __nanosleep(pause);
            pause = pause < 256 ? pause * 2 : pause;
        }
        __threadfence();
    }
    __syncthreads();
    table[t] += in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    if (t == 0) {
        __threadfence();
        atomicExch(lock, 0);
    }
}
