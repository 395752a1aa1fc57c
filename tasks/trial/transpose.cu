// Transposes a matrix through shared memory: tiles of 32 x 32, blocks of 32 x 8 threads.
#define TILE 32
#define ROWS 8

__global__ void transpose(const float* __restrict__ src, float* __restrict__ dst, int rows, int cols)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) {
        if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = src[(y + j) * cols + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) {
        if (x < rows && y + j < cols) dst[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
    }
}
