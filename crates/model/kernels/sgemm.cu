// Products of f32 matrices without tensor cores, C = alpha·A·B + beta·C, in the steps by which siboehm/SGEMM_CUDA and
// leimao/CUDA-GEMM-Optimization make them faster. A is m × k, B is k × n, all row-major; sizes are multiples of the tiles.
#define KERNEL(NAME) extern "C" __global__ void NAME(const float *a, const float *b, float *c, int m, int n, int k, float alpha, float beta)

// One element of C for each thread; neighbors in a warp are neighbors in a column of C.
KERNEL(naive)
{
    const int row = blockIdx.x * 32 + threadIdx.x, column = blockIdx.y * 32 + threadIdx.y;
    if (row >= m || column >= n)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = alpha * sum + beta * c[row * n + column];
}

// Neighbors in a warp are neighbors in a row of C.
KERNEL(coalesced)
{
    const int row = blockIdx.x * 32 + threadIdx.x / 32, column = blockIdx.y * 32 + threadIdx.x % 32;
    if (row >= m || column >= n)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = alpha * sum + beta * c[row * n + column];
}

// Tiles of 32 × 32 go through shared memory.
KERNEL(shared)
{
    __shared__ float left[32][32], right[32][32];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    a += (blockIdx.x * 32 + y) * k + x;
    b += blockIdx.y * 32 + y * n + x;
    float sum = 0.0f;
    for (int i = 0; i < k; i += 32, a += 32, b += 32 * n) {
        left[y][x] = *a;
        right[y][x] = *b;
        __syncthreads();
        for (int j = 0; j < 32; j++)
            sum += left[y][j] * right[j][x];
        __syncthreads();
    }
    float *to = c + (blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x;
    *to = alpha * sum + beta * *to;
}

// Eight elements of a column for each thread, tiles of 64 × 64, 8 deep.
KERNEL(column)
{
    __shared__ float left[64 * 8], right[8 * 64];
    const int x = threadIdx.x % 64, y = threadIdx.x / 64;
    const int left_x = threadIdx.x % 8, left_y = threadIdx.x / 8;
    a += blockIdx.y * 64 * k;
    b += blockIdx.x * 64;
    c += blockIdx.y * 64 * n + blockIdx.x * 64;
    float sum[8] = {};
    for (int i = 0; i < k; i += 8, a += 8, b += 8 * n) {
        left[left_y * 8 + left_x] = a[left_y * k + left_x];
        right[y * 64 + x] = b[y * n + x];
        __syncthreads();
        for (int j = 0; j < 8; j++) {
            const float one = right[j * 64 + x];
            for (int r = 0; r < 8; r++)
                sum[r] += left[(y * 8 + r) * 8 + j] * one;
        }
        __syncthreads();
    }
    for (int r = 0; r < 8; r++) {
        float *to = c + (y * 8 + r) * n + x;
        *to = alpha * sum[r] + beta * *to;
    }
}

// 8 × 8 elements for each thread, tiles of 128 × 128, 8 deep.
extern "C" __global__ void __launch_bounds__(256, 1)
    square(const float *a, const float *b, float *c, int m, int n, int k, float alpha, float beta)
{
    __shared__ float left[128 * 8], right[8 * 128];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int left_x = threadIdx.x % 8, left_y = threadIdx.x / 8, right_x = threadIdx.x % 128, right_y = threadIdx.x / 128;
    a += blockIdx.y * 128 * k;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * n + blockIdx.x * 128;
    float sum[8][8] = {}, rows[8], columns[8];
    for (int i = 0; i < k; i += 8, a += 8, b += 8 * n) {
        for (int r = 0; r < 128; r += 32)
            left[(left_y + r) * 8 + left_x] = a[(left_y + r) * k + left_x];
        for (int r = 0; r < 8; r += 2)
            right[(right_y + r) * 128 + right_x] = b[(right_y + r) * n + right_x];
        __syncthreads();
        for (int j = 0; j < 8; j++) {
            for (int r = 0; r < 8; r++)
                rows[r] = left[(y * 8 + r) * 8 + j];
            for (int s = 0; s < 8; s++)
                columns[s] = right[j * 128 + x * 8 + s];
            for (int r = 0; r < 8; r++)
                for (int s = 0; s < 8; s++)
                    sum[r][s] += rows[r] * columns[s];
        }
        __syncthreads();
    }
    for (int r = 0; r < 8; r++)
        for (int s = 0; s < 8; s++) {
            float *to = c + (y * 8 + r) * n + x * 8 + s;
            *to = alpha * sum[r][s] + beta * *to;
        }
}

// The same with accesses of 16 bytes, and the tile of A transposed on its way.
KERNEL(wide)
{
    __shared__ __align__(16) float left[8 * 128], right[8 * 128];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int left_x = threadIdx.x % 2 * 4, left_y = threadIdx.x / 2, right_x = threadIdx.x % 32 * 4, right_y = threadIdx.x / 32;
    a += blockIdx.y * 128 * k;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * n + blockIdx.x * 128;
    float sum[8][8] = {}, rows[8], columns[8];
    for (int i = 0; i < k; i += 8, a += 8, b += 8 * n) {
        const float4 four = *reinterpret_cast<const float4 *>(a + left_y * k + left_x);
        left[(left_x + 0) * 128 + left_y] = four.x;
        left[(left_x + 1) * 128 + left_y] = four.y;
        left[(left_x + 2) * 128 + left_y] = four.z;
        left[(left_x + 3) * 128 + left_y] = four.w;
        *reinterpret_cast<float4 *>(right + right_y * 128 + right_x) = *reinterpret_cast<const float4 *>(b + right_y * n + right_x);
        __syncthreads();
        for (int j = 0; j < 8; j++) {
            for (int r = 0; r < 8; r++)
                rows[r] = left[j * 128 + y * 8 + r];
            for (int s = 0; s < 8; s++)
                columns[s] = right[j * 128 + x * 8 + s];
            for (int r = 0; r < 8; r++)
                for (int s = 0; s < 8; s++)
                    sum[r][s] += rows[r] * columns[s];
        }
        __syncthreads();
    }
    for (int r = 0; r < 8; r++)
        for (int s = 0; s < 8; s += 4) {
            float4 *to = reinterpret_cast<float4 *>(c + (y * 8 + r) * n + x * 8 + s);
            float4 four = *to;
            four.x = alpha * sum[r][s] + beta * four.x;
            four.y = alpha * sum[r][s + 1] + beta * four.y;
            four.z = alpha * sum[r][s + 2] + beta * four.z;
            four.w = alpha * sum[r][s + 3] + beta * four.w;
            *to = four;
        }
}
