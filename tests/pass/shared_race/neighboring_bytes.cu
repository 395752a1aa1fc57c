// Each thread stores and reads its own byte. Four threads share a word, but no two touch the same byte: no
// race. The bytes are volatile so that they really go through memory.
// Result: out[i] = in[i] + 1
// Corpus: r18
//@launch: kernel=increment grid=1 block=256 arg=in:in:u8[256]=randint(seed=0) arg=out:out:u8[256]

extern "C" __global__ void increment(const unsigned char *in, unsigned char *out)
{
    __shared__ volatile unsigned char bytes[256];
    unsigned t = threadIdx.x;
    bytes[t] = in[t];
    out[t] = bytes[t] + 1;
}
