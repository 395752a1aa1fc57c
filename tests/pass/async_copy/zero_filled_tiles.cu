// Dot products of rows of 50 floats, in tiles of 32 columns: the last tile is filled with zeros beyond the row.
// Result: out[r] = sum over c of in[r][c] * weights[c]
//@launch: kernel=row_products grid=1 block=128 arg=in:in:f32[4x50]=randn(seed=0) arg=weights:in:f32[50]=randn(seed=1) arg=out:out:f32[4] arg=columns:u32=50
#include <cuda_pipeline.h>

extern "C" __global__ void row_products(const float *in, const float *weights, float *out, unsigned columns)
{
    __shared__ float row_tile[4][32];
    __shared__ float weight_tile[32];
    unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32;
    float sum = 0.0f;
    for (unsigned first = 0; first < columns; first += 32) {
        bool present = first + lane < columns;
        unsigned column = present ? first + lane : 0;
        __pipeline_memcpy_async(&row_tile[row][lane], &in[row * columns + column], 4, present ? 0 : 4);
        if (row == 0)
            __pipeline_memcpy_async(&weight_tile[lane], &weights[column], 4, present ? 0 : 4);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        sum += row_tile[row][31 - lane] * weight_tile[31 - lane];
        __syncthreads();
    }
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    if (lane == 0)
        out[row] = sum;
}
