// A sum over the warp by shuffles; lanes from n on give zero and return only afterwards.
//@launch: kernel=warp_sum grid=1 block=32 arg=in:in:i32[32]=iota arg=out:inout:i32[32]=zeros arg=n:u32=20

extern "C" __global__ void warp_sum(const int *in, int *out, unsigned n)
{
    unsigned t = threadIdx.x;
    int sum = t < n ? in[t] : 0;
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (t >= n)
        return;
    out[t] = sum;
}
