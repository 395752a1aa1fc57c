// Stream-K: the blocks of a tile store their partial sums, and each raises its flag. The first block of the tile waits for one flag
// after the other and adds what they stored.
// Result: tile[x][t] = sum over the blocks b of tile x of in[b][t]
//@launch: kernel=fix_up grid=6 block=64 arg=in:in:i32[6x64]=randint(-99,99,seed=0) arg=partial:scratch:i32[6x64] arg=flags:inout:u32[6]=zeros arg=tile:out:i32[2x64] arg=share:i32=3
//@launch: kernel=fix_up grid=64 block=1024 arg=in:in:i32[64x1024]=randint(-99,99,seed=0) arg=partial:scratch:i32[64x1024] arg=flags:inout:u32[64]=zeros arg=tile:out:i32[4x1024] arg=share:i32=16
//@schedules: 12

extern "C" __global__ void fix_up(const int *in, int *partial, unsigned *flags, int *tile, int share)
{
    unsigned t = threadIdx.x, block = blockIdx.x;
    int sum = in[block * blockDim.x + t];
    if (block % share != 0) {
        partial[block * blockDim.x + t] = sum;
        __syncthreads();
        if (t == 0) {
            __threadfence();
            asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flags + block) : "memory");
        }
        return;
    }
    for (unsigned peer = block + 1; peer < block + share; peer++) {
        if (t == 0) {
            unsigned ready;
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(flags + peer) : "memory");
            } while (ready == 0);
        }
        __syncthreads();
        sum += partial[peer * blockDim.x + t];
    }
    tile[block / share * blockDim.x + t] = sum;
}
