// Tiled matrix product of two 64 x 64 matrices: one barrier when a tile is full, one when it is used up.
// Result: c = a * b
// Corpus: r02
//@launch: kernel=matmul grid=4,4 block=16,16 arg=a:in:f32[64x64]=randn(seed=0) arg=b:in:f32[64x64]=randn(seed=1) arg=c:out:f32[64x64] arg=n:i32=64

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float a_tile[16][16];
    __shared__ float b_tile[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        a_tile[y][x] = a[row * n + k + x];
        b_tile[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
