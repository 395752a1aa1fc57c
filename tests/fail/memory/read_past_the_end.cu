// Copies n floats with blocks of 256 and forgets the guard of the last block: threads 1000 … 1023 read and write past
// the ends. Hardware overwrites the neighboring allocation; it stops only where no page is mapped.
// Corpus: m01
//@launch: kernel=copy grid=4 block=256 arg=in:in:f32[1000]=randn(seed=0) arg=out:out:f32[1000] arg=n:u32=1000

extern "C" __global__ void copy(const float *in, float *out, unsigned n)
{
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    out[i] = in[i]; //~ bounds
}
