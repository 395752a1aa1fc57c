// Each of 8 blocks labels its tile of 128 elements with its number, but the tiles are 127 apart: the last
// element of a tile is the first of the next, and either block's number may stay.
// Corpus: g08
//@launch: kernel=label grid=8 block=128 arg=out:out:u32[1017]

extern "C" __global__ void label(unsigned *out)
{
    unsigned i = blockIdx.x * 127 + threadIdx.x;
    out[i] = blockIdx.x; //~ global-race
}
