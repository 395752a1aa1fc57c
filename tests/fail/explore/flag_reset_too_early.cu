// Two blocks meet at a barrier of their own in global memory: the last to come resets the counter and opens the gate. The gate is
// not closed again, so in the second round nobody waits: what the other block wrote may not be there yet.
//@launch: kernel=rounds grid=2 block=32 arg=count:inout:u32[1]=zeros arg=gate:inout:u32[1]=zeros arg=rows:inout:i32[64]=zeros arg=out:out:i32[64]
//@explore: 2

__device__ void meet(unsigned *count, unsigned *gate)
{
    __syncwarp();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(count, 1) == gridDim.x - 1) {
            atomicExch(count, 0);
            atomicExch(gate, 1);
        }
        while (atomicAdd(gate, 0) == 0)
            ;
        __threadfence();
    }
    __syncwarp();
}

extern "C" __global__ void rounds(unsigned *count, unsigned *gate, int *rows, int *out)
{
    unsigned t = threadIdx.x, own = blockIdx.x * 32 + t, other = (1 - blockIdx.x) * 32 + t;
    int sum = 0;
    for (int round = 0; round < 2; round++) {
        rows[own] = round + 1; //~ global-race
        meet(count, gate);
        sum += rows[other]; //~ global-race
    }
    out[own] = sum;
}
