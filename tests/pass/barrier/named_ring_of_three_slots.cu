// Two producer warps feed two consumer warps through a ring of three slots. Barrier 1 + s says that slot s is
// full, barrier 4 + s that it is free; each is entered by all 128 threads, by half of them with bar.arrive.
// Result: out[i] = 3 * in[i]
//@launch: kernel=ring grid=1 block=128 arg=in:in:i32[512]=randint(-99,99,seed=0) arg=out:out:i32[512] arg=tiles:u32=8

__device__ void wait(unsigned barrier)
{
    asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

__device__ void arrive(unsigned barrier)
{
    asm volatile("bar.arrive %0, 128;" ::"r"(barrier) : "memory");
}

extern "C" __global__ void ring(const int *in, int *out, unsigned tiles)
{
    __shared__ int slot[3][64];
    unsigned i = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        for (unsigned tile = 0; tile < tiles; tile++) {
            unsigned s = tile % 3;
            if (tile >= 3)
                wait(4 + s);
            slot[s][i] = 3 * in[tile * 64 + i];
            arrive(1 + s);
        }
    } else {
        for (unsigned tile = 0; tile < tiles; tile++) {
            unsigned s = tile % 3;
            wait(1 + s);
            // The reader is not the thread with the writer's place in its warp.
            out[tile * 64 + 63 - i] = slot[s][63 - i];
            if (tile + 3 < tiles)
                arrive(4 + s);
        }
    }
}
