// Blocks are served in the order of their tickets. All threads of a block work between its turn and that of the next one.
// Result: total[t] = sum over the blocks of in[block][t]; the last ticket resets nothing
//@launch: kernel=serve grid=6 block=64 arg=in:in:i32[6x64]=randint(-99,99,seed=0) arg=tickets:inout:u32[2]=zeros arg=total:inout:i32[64]=zeros
//@launch: kernel=serve grid=64 block=1024 arg=in:in:i32[64x1024]=randint(-99,99,seed=0) arg=tickets:inout:u32[2]=zeros arg=total:inout:i32[1024]=zeros
//@schedules: 12

extern "C" __global__ void serve(const int *in, unsigned *tickets, int *total)
{
    unsigned t = threadIdx.x;
    if (t == 0) {
        unsigned mine = atomicAdd(&tickets[0], 1), now;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(&tickets[1]) : "memory");
        } while (now != mine);
    }
    __syncthreads();
    total[t] += in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    if (t == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&tickets[1]) : "memory");
}
