// Sums each element and the one before it; the first has none before it, and reads 4 bytes before the array. Hardware
// gives the end of the neighboring allocation.
// Corpus: m10
//@launch: kernel=sum_pairs grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void sum_pairs(const float *in, float *out)
{
    int i = threadIdx.x;
    out[i] = in[i] + in[i - 1]; //~ bounds
}
