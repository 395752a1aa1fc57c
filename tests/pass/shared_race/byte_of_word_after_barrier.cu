// Stores words, and behind a barrier reads single bytes of words that a thread of the neighboring warp stored.
// Result: out[i] = second byte of in[i ^ 32]
// Corpus: r17
//@launch: kernel=second_byte grid=1 block=128 arg=in:in:u32[128]=randint(seed=0) arg=out:out:u8[128]

extern "C" __global__ void second_byte(const unsigned *in, unsigned char *out)
{
    __shared__ unsigned words[128];
    unsigned t = threadIdx.x;
    words[t] = in[t];
    __syncthreads();
    const unsigned char *bytes = (const unsigned char *)words;
    out[t] = bytes[(t ^ 32) * 4 + 1];
}
