// Layer norm: one block per row, mean and variance by Welford's method merged over lanes and warps.
// Result: out[r][c] = (in[r][c] - mean) / sqrt(variance + epsilon) * gamma[c] + beta[c]
//@arch: 75+
//@launch: kernel=layer_norm grid=8 block=128 arg=in:f32[4000]=randn(seed=0) arg=gamma:f32[500]=randn(seed=1) arg=beta:f32[500]=randn(seed=2) arg=out:f32[4000] arg=columns:u32=500 arg=epsilon:f32=1e-5
//@launch: kernel=layer_norm_half grid=8 block=128 arg=in:f16[4000]=randn(seed=3) arg=gamma:f16[500]=randn(seed=4) arg=beta:f16[500]=randn(seed=5) arg=out:f16[4000] arg=columns:u32=500 arg=epsilon:f32=1e-5
#include <cuda_fp16.h>

struct Moments {
    float mean, m2, count;

    __device__ void add(float x)
    {
        count += 1.0f;
        float delta = x - mean;
        mean += delta / count;
        m2 += delta * (x - mean);
    }

    __device__ void merge(const Moments &other)
    {
        float total = count + other.count;
        if (total == 0.0f)
            return;
        float delta = other.mean - mean, share = other.count / total;
        mean += delta * share;
        m2 += other.m2 + delta * delta * count * share;
        count = total;
    }

    __device__ void merge_lanes(int lanes)
    {
        for (int offset = lanes / 2; offset > 0; offset /= 2) {
            Moments other = {__shfl_down_sync(0xffffffff, mean, offset), __shfl_down_sync(0xffffffff, m2, offset),
                             __shfl_down_sync(0xffffffff, count, offset)};
            merge(other);
        }
    }
};

__device__ Moments block_moments(Moments m)
{
    __shared__ Moments of_warp[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    m.merge_lanes(32);
    if (lane == 0)
        of_warp[warp] = m;
    __syncthreads();
    if (warp == 0) {
        m = lane < blockDim.x / 32 ? of_warp[lane] : Moments{0.0f, 0.0f, 0.0f};
        m.merge_lanes(32);
        if (lane == 0)
            of_warp[0] = m;
    }
    __syncthreads();
    return of_warp[0];
}

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ void narrow(float *to, float x) { *to = x; }
__device__ void narrow(__half *to, float x) { *to = __float2half_rn(x); }

template <typename T>
__device__ void normalize(const T *in, const T *gamma, const T *beta, T *out, unsigned columns, float epsilon)
{
    in += blockIdx.x * columns;
    out += blockIdx.x * columns;
    Moments m = {0.0f, 0.0f, 0.0f};
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x)
        m.add(widen(in[c]));
    m = block_moments(m);
    float scale = rsqrtf(m.m2 / m.count + epsilon);
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x)
        narrow(&out[c], (widen(in[c]) - m.mean) * scale * widen(gamma[c]) + widen(beta[c]));
}

extern "C" __global__ void layer_norm(const float *in, const float *gamma, const float *beta, float *out,
                                      unsigned columns, float epsilon)
{
    normalize(in, gamma, beta, out, columns, epsilon);
}

extern "C" __global__ void layer_norm_half(const __half *in, const __half *gamma, const __half *beta, __half *out,
                                           unsigned columns, float epsilon)
{
    normalize(in, gamma, beta, out, columns, epsilon);
}
