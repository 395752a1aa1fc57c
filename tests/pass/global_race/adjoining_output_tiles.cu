// Each of 8 blocks labels its tile of 128 elements with its number.
// Result: out[i] = i / 128
// Corpus: g08
//@launch: kernel=label grid=8 block=128 arg=out:out:u32[1024]

extern "C" __global__ void label(unsigned *out)
{
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    out[i] = blockIdx.x;
}
