// The halves of a warp take different branches, each with __syncwarp of its own half, and meet again behind
// them.
// Result: out[i] = i < 16 ? in[15 - i] : -in[47 - i], and then reversed over the whole warp
//@launch: kernel=branches grid=1 block=32 arg=in:in:i32[32]=randint(-99,99,seed=0) arg=out:out:i32[32]

extern "C" __global__ void branches(const int *in, int *out)
{
    __shared__ int tile[32];
    unsigned lane = threadIdx.x;
    int value;
    if (lane < 16) {
        tile[lane] = in[lane];
        __syncwarp(0x0000ffff);
        value = tile[15 - lane];
    } else {
        tile[lane] = -in[lane];
        __syncwarp(0xffff0000);
        value = tile[47 - lane];
    }
    __syncwarp();
    tile[lane] = value;
    __syncwarp();
    out[lane] = tile[31 - lane];
}
