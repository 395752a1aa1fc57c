// C = A B of signed bytes, in 32-bit integers. B is stored by columns (n rows of k), as int8 weights usually are.
#define TILE 16

__global__ void gemm_i8(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ c, int m,
                        int n, int k)
{
    __shared__ signed char as[TILE][TILE + 4], bs[TILE][TILE + 4];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int column = blockIdx.x * TILE + threadIdx.x;
    int sum = 0;
    for (int start = 0; start < k; start += TILE) {
        const int t = start + threadIdx.x;
        const int other = blockIdx.x * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && t < k ? a[row * k + t] : 0;
        bs[threadIdx.y][threadIdx.x] = other < n && t < k ? b[other * k + t] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[threadIdx.x][i];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
