// Tile of 32 rows of eight 16-byte vectors with the usual tensor-core swizzle: vector c of row r lies at c ^ (r
// % 8).
// Result: out[c][r] = in[r][c], in vectors of four
//@launch: kernel=transpose_vectors grid=1 block=64 arg=in:in:u32[32x32]=iota arg=out:out:u32[32x32]

extern "C" __global__ void transpose_vectors(const uint4 *in, uint4 *out)
{
    __shared__ uint4 tile[32][8];
    for (unsigned i = threadIdx.x; i < 256; i += 64) {
        unsigned row = i / 8, column = i % 8;
        tile[row][column ^ row % 8] = in[i];
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 256; i += 64) {
        unsigned column = i / 32, row = i % 32;
        out[i] = tile[row][column ^ row % 8];
    }
}
