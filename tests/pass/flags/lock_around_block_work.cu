// Each block adds its 64 values into a shared table in global memory under a lock. One thread takes and gives
// the lock; barriers put the other threads' work between the two.
// Result: table[i] = in[0][i] + in[1][i] + in[2][i] + in[3][i]
//@launch: kernel=add_tables grid=4 block=64 arg=in:in:i32[4x64]=randint(-99,99,seed=0) arg=lock:inout:i32[1]=zeros arg=table:inout:i32[64]=zeros

extern "C" __global__ void add_tables(const int *in, int *lock, int *table)
{
    unsigned t = threadIdx.x;
    if (t == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        __threadfence();
    }
    __syncthreads();
    table[t] += in[blockIdx.x * 64 + t];
    __syncthreads();
    if (t == 0) {
        __threadfence();
        atomicExch(lock, 0);
    }
}
