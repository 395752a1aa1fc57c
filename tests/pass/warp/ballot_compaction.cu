// Moves the positive elements of each warp to its front: places by ballot, values through shared memory.
// Result: out[w] = the positive ones of the w-th 32 elements in order, then zeros
//@launch: kernel=compact grid=1 block=64 arg=in:in:i32[64]=randint(-9,9,seed=0) arg=out:out:i32[64]

extern "C" __global__ void compact(const int *in, int *out)
{
    __shared__ int kept[2][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int value = in[threadIdx.x];
    unsigned positive = __ballot_sync(0xffffffff, value > 0);
    if (value > 0)
        kept[warp][__popc(positive & ((1u << lane) - 1))] = value;
    __syncwarp();
    out[threadIdx.x] = lane < __popc(positive) ? kept[warp][lane] : 0;
}
