// Mean of five neighbors; each block loads its 128 elements and a halo of two on either side, zero beyond the
// ends.
// Result: out[i] = (in[i - 2] + ... + in[i + 2]) / 5
//@launch: kernel=blur grid=4 block=128 arg=in:in:f32[500]=randn(seed=0) arg=out:out:f32[500] arg=n:i32=500

extern "C" __global__ void blur(const float *in, float *out, int n)
{
    constexpr int RADIUS = 2;
    __shared__ float tile[128 + 2 * RADIUS];
    int t = threadIdx.x, first = blockIdx.x * 128 - RADIUS;
    for (int i = t; i < 128 + 2 * RADIUS; i += 128) {
        int from = first + i;
        tile[i] = from >= 0 && from < n ? in[from] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k <= 2 * RADIUS; k++)
        sum += tile[t + k];
    int i = blockIdx.x * 128 + t;
    if (i < n)
        out[i] = sum / (2 * RADIUS + 1);
}
