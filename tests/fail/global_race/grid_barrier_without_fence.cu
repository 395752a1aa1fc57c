// Two blocks exchange a value across a barrier made of an atomic counter. The counter shows that the other
// block has arrived, but without fences its store need not have: the old value may be read.
// Corpus: g10
//@launch: kernel=exchange grid=2 block=32 arg=count:inout:u32[1]=zeros arg=mail:inout:i32[2]=zeros arg=out:out:i32[2]

extern "C" __global__ void exchange(unsigned *count, int *mail, int *out)
{
    if (threadIdx.x == 0) {
        mail[blockIdx.x] = blockIdx.x + 1; //~ global-race
        atomicAdd(count, 1);
        while (*(volatile unsigned *)count < gridDim.x) {
        }
        out[blockIdx.x] = mail[1 - blockIdx.x]; //~ global-race
    }
}
