// A tile is read by columns: with rows of 32 floats all lanes of a warp meet in one bank.
//@launch: kernel=columns grid=2 block=32,4 arg=x:in:f32[2048]=iota arg=y:out:f32[2048]
#ifndef PAD
#define PAD 0
#endif

extern "C" __global__ void columns(const float *x, float *y)
{
    __shared__ float tile[32][32 + PAD];
    const float *from = x + 1024 * blockIdx.x;
    for (int row = threadIdx.y; row < 32; row += 4)
        tile[row][threadIdx.x] = from[32 * row + threadIdx.x];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 4)
        y[1024 * blockIdx.x + 32 * row + threadIdx.x] = tile[threadIdx.x][row];
}
