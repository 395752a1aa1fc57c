// Serial split-K: the blocks of a tile add to it in order. All threads of a block wait for its turn at a barrier, which passes on
// whether the semaphore has the block's number.
// Result: tile[x][t] = sum over y of in[y][x][t]; semaphore[x] = 0 again
//@launch: kernel=add_slices grid=2,3 block=64 arg=in:in:i32[3x2x64]=randint(-99,99,seed=0) arg=semaphore:inout:i32[2]=zeros arg=tile:inout:i32[2x64]=zeros
//@launch: kernel=add_slices grid=4,16 block=1024 arg=in:in:i32[16x4x1024]=randint(-99,99,seed=0) arg=semaphore:inout:i32[4]=zeros arg=tile:inout:i32[4x1024]=zeros
//@schedules: 12

extern "C" __global__ void add_slices(const int *in, int *semaphore, int *tile)
{
    unsigned t = threadIdx.x, column = blockIdx.x, slice = blockIdx.y;
    int turn = -1;
    while (__syncthreads_and(turn != (int)slice)) {
        if (t == 0)
            asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(turn) : "l"(semaphore + column) : "memory");
    }
    tile[column * blockDim.x + t] += in[(slice * gridDim.x + column) * blockDim.x + t];
    __syncthreads();
    if (t == 0) {
        int next = slice + 1 == gridDim.y ? 0 : (int)slice + 1;
        asm volatile("fence.acq_rel.gpu; st.release.gpu.global.b32 [%0], %1;" ::"l"(semaphore + column), "r"(next) : "memory");
    }
}
