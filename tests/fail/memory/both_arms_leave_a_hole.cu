// Each arm of a branch takes from an array of its own, and either has a hole. The lanes of one warp join again before the store:
// each hole is reported with its own array.
//@launch: kernel=join grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void join(const float *in, float *out)
{
    __shared__ float odd[32], even[32];
    unsigned t = threadIdx.x;
    if (t != 5)
        odd[t] = in[t];
    if (t != 8)
        even[t] = in[t];
    __syncwarp();
    float value;
    if (t % 2) {
        value = ((volatile float *)odd)[t]; //~ uninitialized
        value *= in[0];
    } else {
        value = ((volatile float *)even)[t]; //~ uninitialized
        value += in[0];
    }
    out[t] = value; //~ uninitialized
}
