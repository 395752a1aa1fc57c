// The producer block stores a row, each thread executes a fence, and behind a barrier one thread raises a flag. In the consumer
// block one thread waits for the flag; behind a barrier each thread executes a fence and reads what its neighbor's twin stored.
// Result: out[t] = t + 2
//@launch: kernel=pass_on grid=2 block=64 arg=row:out:i32[64] arg=flag:inout:u32[1]=zeros arg=out:out:i32[64]

extern "C" __global__ void pass_on(int *row, unsigned *flag, int *out)
{
    unsigned t = threadIdx.x;
    if (blockIdx.x == 0) {
        row[t] = t + 1;
        __threadfence();
        __syncthreads();
        if (t == 0)
            *(volatile unsigned *)flag = 1;
    } else {
        if (t == 0)
            while (*(volatile unsigned *)flag == 0)
                ;
        __syncthreads();
        __threadfence();
        out[t] = row[(t + 1) % 64] + (t == 63 ? 64 : 0);
    }
}
