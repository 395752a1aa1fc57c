// A grid barrier that reverses its sense: the last block to arrive resets the count and flips the sense for which the others wait.
// Result: a = in after four rounds of x[i] = x[i - 1] + x[i + 1], indices modulo the length, 32-bit
//@launch: kernel=rounds grid=4 block=64 arg=in:in:i32[256]=randint(-9,9,seed=0) arg=a:out:i32[256] arg=b:out:i32[256] arg=count:inout:u32[1]=zeros arg=sense:inout:u32[1]=zeros
//@launch: kernel=rounds grid=64 block=1024 arg=in:in:i32[65536]=randint(-9,9,seed=0) arg=a:out:i32[65536] arg=b:out:i32[65536] arg=count:inout:u32[1]=zeros arg=sense:inout:u32[1]=zeros
//@schedules: 12

__device__ void grid_barrier(unsigned *count, unsigned *sense, unsigned &own)
{
    __syncthreads();
    own = !own;
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(count, 1) == gridDim.x - 1) {
            atomicExch(count, 0);
            __threadfence();
            atomicExch(sense, own);
        } else {
            while (atomicAdd(sense, 0) != own)
                ;
            __threadfence();
        }
    }
    __syncthreads();
}

extern "C" __global__ void rounds(const int *in, int *a, int *b, unsigned *count, unsigned *sense)
{
    unsigned size = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned left = (i + size - 1) % size, right = (i + 1) % size, own = 0;
    a[i] = in[i];
    for (unsigned round = 0; round < 4; round++) {
        grid_barrier(count, sense, own);
        if (round % 2 == 0)
            b[i] = a[left] + a[right];
        else
            a[i] = b[left] + b[right];
    }
}
