// Different threads store the two halves of a word; behind the barrier one thread reads the word.
// Result: out[i] = (in[2 * i], in[2 * i + 1])
//@launch: kernel=pack grid=1 block=128 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f16[128]
#include <cuda_fp16.h>

extern "C" __global__ void pack(const float *in, __half2 *out)
{
    __shared__ __align__(4) __half halves[128];
    unsigned t = threadIdx.x;
    // Neighboring halves come from different warps.
    unsigned place = t % 64 * 2 + t / 64;
    halves[place] = __float2half(in[place]);
    __syncthreads();
    if (t < 64)
        out[t] = *(const __half2 *)&halves[2 * t];
}
