// Adds an optional bias. The caller passes a null pointer for "none", and the kernel does not look. Hardware stops
// with "illegal memory access".
// Corpus: m08
//@launch: kernel=add_bias grid=1 block=64 arg=x:inout:f32[64]=randn(seed=0) arg=bias:u64=0

extern "C" __global__ void add_bias(float *x, const float *bias)
{
    unsigned t = threadIdx.x;
    x[t] += bias[t]; //~ bounds
}
