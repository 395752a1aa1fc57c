// Four blocks smooth a ring in global memory for six rounds, with a grid barrier by an atomic counter between
// rounds.
// Result: a = in after six rounds of x[i] = x[i - 1] + x[i + 1], indices modulo 256, 32-bit
//@launch: kernel=rounds grid=4 block=64 arg=in:in:i32[256]=randint(-9,9,seed=0) arg=a:out:i32[256] arg=b:out:i32[256] arg=count:inout:u32[1]=zeros

// Blocks until all blocks have called it `turn` times; all blocks must be resident.
__device__ void grid_barrier(unsigned *count, unsigned turn)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1);
        while (*(volatile unsigned *)count < turn * gridDim.x) {
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void rounds(const int *in, int *a, int *b, unsigned *count)
{
    unsigned i = blockIdx.x * 64 + threadIdx.x, left = (i + 255) % 256, right = (i + 1) % 256;
    a[i] = in[i];
    for (unsigned round = 0; round < 6; round++) {
        grid_barrier(count, round + 1);
        if (round % 2 == 0)
            b[i] = a[left] + a[right];
        else
            a[i] = b[left] + b[right];
    }
}
