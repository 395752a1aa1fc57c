// Copies float4 vectors from one float past the start of the input: no address is a multiple of 16. Hardware stops
// with "misaligned address".
// Corpus: m03
//@launch: kernel=copy grid=1 block=32 arg=in:in:f32[132]=randn(seed=0) arg=out:out:f32[128]

extern "C" __global__ void copy(const float *in, float4 *out)
{
    const float *row = in + 1;
    out[threadIdx.x] = *(const float4 *)(row + 4 * threadIdx.x); //~ alignment
}
