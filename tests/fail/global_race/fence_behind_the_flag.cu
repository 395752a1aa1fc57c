// The producer raises its flag first and executes the fence afterwards: the fence orders nothing before the flag.
//@launch: kernel=pass_on grid=2 block=64 arg=row:out:i32[64] arg=flag:inout:u32[1]=zeros arg=out:out:i32[64]

extern "C" __global__ void pass_on(int *row, unsigned *flag, int *out)
{
    unsigned t = threadIdx.x;
    if (blockIdx.x == 0) {
        row[t] = t + 1; //~ global-race
        __syncthreads();
        if (t == 0)
            *(volatile unsigned *)flag = 1;
        __threadfence();
    } else {
        if (t == 0)
            while (*(volatile unsigned *)flag == 0)
                ;
        __syncthreads();
        __threadfence();
        out[t] = row[(t + 1) % 64]; //~ global-race
    }
}
