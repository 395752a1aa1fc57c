// Two blocks exchange a value across a barrier made of an atomic counter, with a fence before and after.
// Result: out[b] = 2 - b
// Corpus: g10
//@launch: kernel=exchange grid=2 block=32 arg=count:inout:u32[1]=zeros arg=mail:out:i32[2] arg=out:out:i32[2]

extern "C" __global__ void exchange(unsigned *count, int *mail, int *out)
{
    if (threadIdx.x == 0) {
        mail[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        atomicAdd(count, 1);
        while (*(volatile unsigned *)count < gridDim.x) {
        }
        __threadfence();
        out[blockIdx.x] = mail[1 - blockIdx.x];
    }
}
