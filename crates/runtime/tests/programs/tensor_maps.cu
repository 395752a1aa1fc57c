// Tensor maps: made by the driver, used by a kernel that copies a tile with a swizzle, and refused if an argument is wrong.
#include "check.h"
#include <cstdint>
#include <cuda.h>

constexpr int ROWS = 40, COLUMNS = 96, TILE_ROWS = 16, TILE_COLUMNS = 32;

__device__ unsigned shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// Negates a tile: loads it swizzled, negates it through the swizzle, and stores it without one.
__global__ void negate(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(1024) float tile[TILE_ROWS * TILE_COLUMNS];
    __shared__ alignas(128) float result[TILE_ROWS * TILE_COLUMNS];
    __shared__ uint64_t full;
    const int x = blockIdx.x * TILE_COLUMNS, y = blockIdx.y * TILE_ROWS - 3;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&full)));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&full)), "r"((int)sizeof tile)
                     : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                         shared(tile)),
                     "l"(&in), "r"(x), "r"(y), "r"(shared(&full))
                     : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared(&full))
                     : "memory");
    for (int i = threadIdx.x; i < TILE_ROWS * TILE_COLUMNS; i += blockDim.x) {
        // 128-byte rows: 16-byte pieces are permuted by the number of the row.
        int row = i / TILE_COLUMNS, piece = i % TILE_COLUMNS / 4 ^ row % 8;
        result[i] = -tile[row * TILE_COLUMNS + piece * 4 + i % 4];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        // The first block starts before the tensor, where a store may not; it skips rows instead.
        int skip = y < 0 ? -y : 0;
        if (skip == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(x), "r"(y),
                         "r"(shared(result))
                         : "memory");
            asm volatile("cp.async.bulk.commit_group;");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
    }
}

typedef CUresult (*Encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                           const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
typedef CUresult (*Replace)(CUtensorMap *, void *);

int main(int argc, char **) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &status));
    IS(status == cudaDriverEntryPointSuccess && found);
    Encode encode = (Encode)found;
    OK(cudaGetDriverEntryPointByVersion("cuTensorMapReplaceAddress", &found, 12000, cudaEnableDefault, &status));
    Replace replace = (Replace)found;

    float *in, *out, *other;
    OK(cudaMallocManaged(&in, ROWS * COLUMNS * sizeof(float)));
    OK(cudaMallocManaged(&out, ROWS * COLUMNS * sizeof(float)));
    OK(cudaMallocManaged(&other, ROWS * COLUMNS * sizeof(float)));
    for (int i = 0; i < ROWS * COLUMNS; i++) in[i] = i + 1, out[i] = other[i] = 0;

    CUtensorMap from, to;
    cuuint64_t dims[2] = {COLUMNS, ROWS}, strides[1] = {COLUMNS * sizeof(float)};
    cuuint32_t box[2] = {TILE_COLUMNS, TILE_ROWS}, steps[2] = {1, 1};
    auto make = [&](CUtensorMap *map, float *data, CUtensorMapSwizzle swizzle) {
        return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                      swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    IS(make(&from, in, CU_TENSOR_MAP_SWIZZLE_128B) == CUDA_SUCCESS);
    IS(make(&to, out, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_SUCCESS);
    dim3 grid(COLUMNS / TILE_COLUMNS, (ROWS + 3 + TILE_ROWS - 1) / TILE_ROWS);
    negate<<<grid, 128>>>(from, to);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < ROWS * COLUMNS; i++) IS(out[i] == (i / COLUMNS < TILE_ROWS - 3 ? 0 : -in[i]));

    // The same map for another tensor.
    IS(replace(&to, other) == CUDA_SUCCESS);
    negate<<<grid, 128>>>(from, to);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < ROWS * COLUMNS; i++) IS(other[i] == out[i]);

    if (argc > 1) {
        // A stride that is not a multiple of 16, a box beyond the swizzle, a foreign map.
        strides[0] = COLUMNS * sizeof(float) + 4;
        IS(make(&from, in, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_ERROR_INVALID_VALUE);
        strides[0] = COLUMNS * sizeof(float);
        IS(make(&from, in, CU_TENSOR_MAP_SWIZZLE_64B) == CUDA_ERROR_INVALID_VALUE);
        to.opaque[3] ^= 1;
        IS(replace(&to, out) == CUDA_ERROR_INVALID_VALUE);
    }
    OK(cudaFree(in));
    OK(cudaFree(out));
    OK(cudaFree(other));
    puts("ok");
}
