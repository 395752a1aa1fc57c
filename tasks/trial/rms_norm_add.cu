// Adds the residual and normalizes the sum by its root mean square, as between the layers of a language model.
// The sum is written back to the residual.
#include <cuda_bf16.h>

#define THREADS 128

__global__ void rms_norm_add(const __nv_bfloat16* __restrict__ x, __nv_bfloat16* __restrict__ residual,
                             const __nv_bfloat16* __restrict__ weight, __nv_bfloat16* __restrict__ out, int hidden,
                             float eps)
{
    __shared__ float partial[THREADS / 32];
    const long long row = (long long)blockIdx.x * hidden;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += THREADS) {
        float v = __bfloat162float(x[row + i]) + __bfloat162float(residual[row + i]);
        __nv_bfloat16 stored = __float2bfloat16(v);
        residual[row + i] = stored;
        v = __bfloat162float(stored);
        sum += v * v;
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < THREADS / 32; ++w) sum += partial[w];
    const float scale = rsqrtf(sum / hidden + eps);
    for (int i = threadIdx.x; i < hidden; i += THREADS) {
        float v = __bfloat162float(residual[row + i]);
        out[row + i] = __float2bfloat16(v * scale * __bfloat162float(weight[i]));
    }
}
