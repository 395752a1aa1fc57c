// Matrix transpose through shared memory, bank-conflict free by a padded column and by an XOR swizzle.
// Result: out[x][y] = in[y][x] for in of `height` rows and `width` columns
//@arch: 75+
//@launch: kernel=transpose_padded grid=4,3 block=32,8 arg=in:f32[12288]=iota arg=out:f32[12288] arg=width:u32=128 arg=height:u32=96
//@launch: kernel=transpose_swizzled grid=4,3 block=32,8 arg=in:f32[12288]=iota arg=out:f32[12288] arg=width:u32=128 arg=height:u32=96
//@launch: kernel=transpose_ragged grid=4,3 block=32,8 arg=in:f32[7700]=iota arg=out:f32[7700] arg=width:u32=100 arg=height:u32=77

constexpr unsigned TILE = 32;

extern "C" __global__ void transpose_padded(const float *in, float *out, unsigned width, unsigned height)
{
    __shared__ float tile[TILE][TILE + 1];
    unsigned x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += blockDim.y)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += blockDim.y)
        out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_swizzled(const float *in, float *out, unsigned width, unsigned height)
{
    // Element (row, column) lives at column ^ row: a row and a column both touch all 32 banks.
    __shared__ float tile[TILE][TILE];
    unsigned x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += blockDim.y) {
        unsigned row = threadIdx.y + j;
        tile[row][threadIdx.x ^ row] = in[(y + j) * width + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += blockDim.y) {
        unsigned column = threadIdx.y + j;
        out[(y + j) * height + x] = tile[threadIdx.x][column ^ threadIdx.x];
    }
}

extern "C" __global__ void transpose_ragged(const float *in, float *out, unsigned width, unsigned height)
{
    __shared__ float tile[TILE][TILE + 1];
    unsigned x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += blockDim.y)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += blockDim.y)
        if (x < height && y + j < width)
            out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
