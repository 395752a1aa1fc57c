// Block 0 spins on a flag that block 1 sets. CUDA does not promise that block 1 runs before block 0 has ended, but with
// two blocks every device holds both; a volatile flag that carries no data needs no fence. Nothing to report.
// Corpus: s09
//@launch: kernel=wait grid=2 block=32 arg=flag:inout:i32[1]=zeros arg=out:out:i32[1]

extern "C" __global__ void wait(volatile int *flag, int *out)
{
    if (blockIdx.x == 0) {
        while (*flag == 0) {
        }
        if (threadIdx.x == 0)
            *out = 1;
    } else if (threadIdx.x == 0) {
        *flag = 1;
    }
}
