// Transpose of a 64 x 64 matrix through tiles of 32 x 33; the extra column keeps columns in different banks.
// Result: out = transposed in
//@launch: kernel=transpose grid=2,2 block=32,8 arg=in:in:f32[64x64]=randn(seed=0) arg=out:out:f32[64x64] arg=n:u32=64

extern "C" __global__ void transpose(const float *in, float *out, unsigned n)
{
    __shared__ float tile[32][33];
    unsigned x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
    for (unsigned row = threadIdx.y; row < 32; row += 8)
        tile[row][threadIdx.x] = in[(y + row) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32;
    for (unsigned row = threadIdx.y; row < 32; row += 8)
        out[(y + row) * n + x] = tile[threadIdx.x][row];
}
