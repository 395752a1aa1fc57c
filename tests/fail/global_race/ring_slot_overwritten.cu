// Block 0 passes 16 rows through a ring of 2 slots to block 1. The consumer waits for each row, but the producer does not wait
// until a slot was read: it can be a row ahead and overwrite what the consumer still reads.
//@launch: kernel=ring grid=2 block=32 arg=slots:inout:i32[64]=zeros arg=filled:inout:u32[1]=zeros arg=out:out:i32[32]

extern "C" __global__ void ring(int *slots, unsigned *filled, int *out)
{
    unsigned t = threadIdx.x;
    int sum = 0;
    for (unsigned row = 0; row < 16; row++) {
        int *slot = slots + row % 2 * 32;
        if (blockIdx.x == 0) {
            slot[t] = row + t; //~ global-race
            __threadfence();
            __syncwarp();
            if (t == 0)
                atomicExch(filled, row + 1);
        } else {
            if (t == 0)
                while (*(volatile unsigned *)filled <= row)
                    ;
            __syncwarp();
            __threadfence();
            sum += slot[(t + 1) % 32]; //~ global-race
        }
    }
    if (blockIdx.x == 1)
        out[t] = sum;
}
