// The first kernel of a backward pass of attention sums output times gradient by row. It is launched as a dependent, but never waits for
// the matrix product before it in the stream, which writes the gradient (flash-attention #2481).
//@device: h100
#include "../dependent.h"

constexpr int ROWS = 64, COLUMNS = 64, TILE = 16;

static __global__ void project(const float *a, const float *b, float *gradient) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < COLUMNS; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * COLUMNS + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * COLUMNS + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    cudaTriggerProgrammaticLaunchCompletion();
    gradient[row * COLUMNS + column] = sum;
}

static __global__ void rows(const float *output, const float *gradient, float *sums) {
    int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    float sum = 0;
    for (int i = lane; i < COLUMNS; i += 32) sum += output[row * COLUMNS + i] * gradient[row * COLUMNS + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    cudaTriggerProgrammaticLaunchCompletion();
    if (lane == 0) sums[row] = sum;
}

int main() {
    float *a, *b, *gradient, *output, *sums;
    for (float **matrix : {&a, &b, &gradient, &output}) OK(cudaMalloc(matrix, ROWS * COLUMNS * 4));
    OK(cudaMalloc(&sums, ROWS * 4));
    for (float *matrix : {a, b, output}) OK(cudaMemset(matrix, 0, ROWS * COLUMNS * 4));
    project<<<dim3(COLUMNS / TILE, ROWS / TILE), dim3(TILE, TILE)>>>(a, b, gradient);
    DEPENDENT(rows, ROWS / 4, 128, 0, output, gradient, sums); //~ stream-race
    OK(cudaDeviceSynchronize());
    for (float *memory : {a, b, gradient, output, sums}) OK(cudaFree(memory));
    return 0;
}
