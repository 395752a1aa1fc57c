// All lanes of a warp read a number, meet, and only then does lane 0 replace it.
// Result: out[32 * round + i] = in[round]
//@launch: kernel=broadcast grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void broadcast(const float *in, float *out)
{
    __shared__ volatile float slot;
    unsigned t = threadIdx.x;
    for (int round = 0; round < 2; round++) {
        if (t == 0)
            slot = in[round];
        __syncwarp();
        out[32 * round + t] = slot;
        __syncwarp();
    }
}
