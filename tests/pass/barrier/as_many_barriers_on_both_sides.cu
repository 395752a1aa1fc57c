// Both warps come to as many barriers, and the tile is written before the one behind which it is read.
// Result: out[i] = in[i + 32] for i < 32, else 0
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned t = threadIdx.x;
    if (t < 32) {
        __syncthreads();
        __syncthreads();
        __syncthreads();
        out[t] = tile[t];
    } else {
        __syncthreads();
        __syncthreads();
        tile[t - 32] = in[t];
        __syncthreads();
        out[t] = 0;
    }
}
