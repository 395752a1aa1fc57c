// Transpose of a 64 x 64 matrix through tiles of 32 x 32 whose columns are permuted by exclusive or with the
// row.
// Result: out = transposed in
//@launch: kernel=transpose grid=2,2 block=32,8 arg=in:in:f32[64x64]=randn(seed=0) arg=out:out:f32[64x64] arg=n:u32=64

extern "C" __global__ void transpose(const float *in, float *out, unsigned n)
{
    __shared__ float tile[32][32];
    unsigned x = threadIdx.x, left = blockIdx.x * 32, top = blockIdx.y * 32;
    for (unsigned y = threadIdx.y; y < 32; y += 8)
        tile[y][x ^ y] = in[(top + y) * n + left + x];
    __syncthreads();
    for (unsigned y = threadIdx.y; y < 32; y += 8)
        out[(left + y) * n + top + x] = tile[x][y ^ x];
}
