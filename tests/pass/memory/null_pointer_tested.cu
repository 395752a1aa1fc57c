// Adds an optional bias; a null pointer means none.
// Corpus: m08
//@launch: kernel=add_bias grid=1 block=64 arg=x:inout:f32[64]=randn(seed=0) arg=bias:u64=0

extern "C" __global__ void add_bias(float *x, const float *bias)
{
    unsigned t = threadIdx.x;
    if (bias)
        x[t] += bias[t];
}
