// A sum over the warp by shuffles, after lanes from n on have returned. The mask still names them, and the lower lanes
// read their registers. Hardware gives undefined values.
//@launch: kernel=warp_sum grid=1 block=32 arg=in:in:i32[32]=iota arg=out:inout:i32[32]=zeros arg=n:u32=20

extern "C" __global__ void warp_sum(const int *in, int *out, unsigned n)
{
    unsigned t = threadIdx.x;
    if (t >= n)
        return;
    int sum = in[t];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance); //~ lanes
    out[t] = sum;
}
