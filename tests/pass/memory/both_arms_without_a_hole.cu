// Each arm of a branch takes from an array of its own, both with holes where the other arm takes.
// Result: out[i] = in[i] * in[0] for odd i, in[i] + in[0] for even i
//@launch: kernel=join grid=1 block=32 arg=in:in:f32[32]=randn(seed=0) arg=out:out:f32[32]

extern "C" __global__ void join(const float *in, float *out)
{
    __shared__ float odd[32], even[32];
    unsigned t = threadIdx.x;
    if (t % 2)
        odd[t] = in[t];
    else
        even[t] = in[t];
    __syncwarp();
    float value;
    if (t % 2) {
        value = ((volatile float *)odd)[t];
        value *= in[0];
    } else {
        value = ((volatile float *)even)[t];
        value += in[0];
    }
    out[t] = value;
}
