// Serial split-K: one thread polls the semaphore through a volatile pointer, the others wait at the barrier behind the loop.
// Result: tile[x][t] = sum over y of in[y][x][t]; semaphore[x] = the number of slices
//@launch: kernel=add_slices grid=2,3 block=64 arg=in:in:i32[3x2x64]=randint(-99,99,seed=0) arg=semaphore:inout:i32[2]=zeros arg=tile:inout:i32[2x64]=zeros
//@launch: kernel=add_slices grid=1,64 block=1024 arg=in:in:i32[64x1x1024]=randint(-99,99,seed=0) arg=semaphore:inout:i32[1]=zeros arg=tile:inout:i32[1x1024]=zeros
//@schedules: 12

extern "C" __global__ void add_slices(const int *in, int *semaphore, int *tile)
{
    unsigned t = threadIdx.x, column = blockIdx.x, slice = blockIdx.y;
    if (t == 0) {
        while (*(volatile int *)(semaphore + column) != (int)slice)
            ;
        __threadfence();
    }
    __syncthreads();
    tile[column * blockDim.x + t] += in[(slice * gridDim.x + column) * blockDim.x + t];
    __syncthreads();
    if (t == 0) {
        __threadfence();
        atomicAdd(semaphore + column, 1);
    }
}
