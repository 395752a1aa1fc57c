// An element of `tile` that nobody has written goes through a local array, another shared array and a shuffle before it is
// stored: the report names `tile`, not what it passed through. `spare` has a hole as well, which goes nowhere.
//@launch: kernel=pass_on grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32] arg=n:i32=3

extern "C" __global__ void pass_on(const float *in, float *out, int n)
{
    __shared__ float tile[32], copy[32], spare[32];
    unsigned t = threadIdx.x;
    if (t != 7)
        tile[t] = in[t];
    if (t != 9)
        spare[t] = in[t];
    __syncwarp();
    float kept[8];
    for (int i = 0; i < 8; i++)
        kept[i] = in[i];
    kept[n] = ((volatile float *)tile)[t]; //~ uninitialized
    kept[n + 1] = ((volatile float *)spare)[t];
    kept[n + 1] = in[t];
    copy[t] = kept[(n + t * 0) % 8];
    __syncwarp();
    float mine = ((volatile float *)copy)[31 - t];
    out[t] = __shfl_xor_sync(~0u, mine, 1) + kept[n + 1]; //~ uninitialized
}
