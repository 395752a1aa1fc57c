// Applies a filter of 5 taps from constant memory.
//@launch: kernel=filter grid=1 block=32 arg=in:in:f32[38]=randn(seed=0) arg=out:out:f32[32] arg=taps:i32=5

__constant__ float weight[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};

extern "C" __global__ void filter(const float *in, float *out, int taps)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < taps; i++)
        sum += weight[i] * in[threadIdx.x + i];
    out[threadIdx.x] = sum;
}
