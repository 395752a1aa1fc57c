// Transposes a square matrix in place, a tile for each block. The block of tile (x, y) reads what the block of tile (y, x)
// writes, and the other way round. A matrix of equal values does not show it: both write what was there.
//@launch: kernel=transpose grid=2,2 block=16,16 arg=matrix:inout:f32[32,32]=ones

extern "C" __global__ void transpose(float *matrix)
{
    __shared__ float tile[16][17];
    unsigned x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = matrix[y * 32 + x]; //~ global-race
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    matrix[y * 32 + x] = tile[threadIdx.x][threadIdx.y]; //~ global-race
}
