// Tiled matrix product with two buffers in shared memory and one barrier per tile: the next tile waits in
// registers.
// Result: c = a * b, 48 x 48
//@launch: kernel=matmul grid=3,3 block=16,16 arg=a:in:f32[48x48]=randn(seed=0) arg=b:in:f32[48x48]=randn(seed=1) arg=c:out:f32[48x48] arg=n:u32=48

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n)
{
    __shared__ float a_tile[2][16][16], b_tile[2][16][17];
    unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float next_a = a[row * n + x], next_b = b[y * n + column], sum = 0.0f;
    for (unsigned k = 0; k < n; k += 16) {
        unsigned now = k / 16 % 2;
        a_tile[now][y][x] = next_a;
        b_tile[now][y][x] = next_b;
        __syncthreads();
        if (k + 16 < n) {
            next_a = a[row * n + k + 16 + x];
            next_b = b[(k + 16 + y) * n + column];
        }
        for (unsigned i = 0; i < 16; i++)
            sum += a_tile[now][y][i] * b_tile[now][i][x];
    }
    c[row * n + column] = sum;
}
