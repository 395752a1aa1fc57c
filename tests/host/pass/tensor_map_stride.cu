// Rows are padded to a multiple of 16 bytes.
//@device: h100
#include "../runtime.h"

int main() {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &status));
    auto encode = (decltype(&cuTensorMapEncodeTiled))found;
    const unsigned rows = 8, columns = 100, pitch = columns + 4;
    float *data;
    OK(cudaMalloc(&data, rows * pitch * sizeof(float)));
    CUtensorMap map;
    cuuint64_t dims[2] = {columns, rows}, strides[1] = {pitch * sizeof(float)};
    cuuint32_t box[2] = {32, 8}, steps[2] = {1, 1};
    const auto type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    const auto interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    const auto promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    const auto fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    CUresult result = encode(&map, type, 2, data, dims, strides, box, steps, interleave, swizzle, promotion, fill);
    OK(cudaFree(data));
    return result == CUDA_SUCCESS ? 0 : 1;
}
