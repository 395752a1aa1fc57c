// Warp 0 hands 32 values to warp 1 of the same block: a volatile flag in shared memory between two block
// fences.
// Result: out[i] = in[31 - i]
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:i32[32]=iota(7) arg=out:out:i32[32]

extern "C" __global__ void hand_over(const int *in, int *out)
{
    __shared__ volatile unsigned flag;
    __shared__ int tile[32];
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        tile[lane] = in[lane];
        __syncwarp();
        if (lane == 0) {
            __threadfence_block();
            flag = 1;
        }
    } else {
        while (flag == 0) {
        }
        __threadfence_block();
        out[lane] = tile[31 - lane];
    }
}
