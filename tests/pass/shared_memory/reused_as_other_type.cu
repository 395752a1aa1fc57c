// One shared buffer serves as a tile of floats, then as a table of 64-bit sums, with barriers between the two
// uses.
// Result: out[i] = sum over the i-th eight elements of in of 1024 * in, rounded down
//@launch: kernel=sums_of_eight grid=1 block=128 arg=in:in:f32[128]=uniform(-8,8,seed=0) arg=out:out:i64[16]

extern "C" __global__ void sums_of_eight(const float *in, long long *out)
{
    __shared__ union {
        float tile[128];
        long long sums[16];
    } shared;
    unsigned t = threadIdx.x;
    shared.tile[t] = in[t];
    __syncthreads();
    long long sum = 0;
    if (t < 16)
        for (unsigned i = 0; i < 8; i++)
            sum += (long long)floorf(1024.0f * shared.tile[8 * t + i]);
    __syncthreads();
    if (t < 16)
        shared.sums[t] = sum;
    __syncthreads();
    if (t < 16)
        out[15 - t] = shared.sums[15 - t];
}
