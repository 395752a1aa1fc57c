// Softmax of the rows of a matrix: a warp takes a row, a block of 256 threads takes eight.
__global__ void softmax_warp(const float* __restrict__ input, float* __restrict__ output, int rows, int cols)
{
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* x = input + (size_t)row * cols;
    float* y = output + (size_t)row * cols;
    float top = -3.402823466e38f;
    for (int c = lane; c < cols; c += 32) top = fmaxf(top, x[c]);
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, offset));
    float sum = 0.0f;
    for (int c = lane; c < cols; c += 32) sum += expf(x[c] - top);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    for (int c = lane; c < cols; c += 32) y[c] = expf(x[c] - top) / sum;
}
