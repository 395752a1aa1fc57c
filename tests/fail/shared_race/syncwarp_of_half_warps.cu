// Reverses one warp's elements through shared memory. Each half of the warp synchronizes only with itself,
// while every value crosses from one half to the other: the halves are not ordered, and old contents may be
// read.
// Corpus: r07
//@launch: kernel=reverse_warp grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void reverse_warp(const float *in, float *out)
{
    __shared__ volatile float tile[32];
    unsigned lane = threadIdx.x;
    tile[lane] = in[lane]; //~ shared-race
    if (lane < 16)
        __syncwarp(0x0000ffff);
    else
        __syncwarp(0xffff0000);
    out[lane] = tile[31 - lane]; //~ shared-race
}
