// The other half; `inner.ptx` is made as `outer.ptx` is.

extern "C" __device__ int inner(int x)
{
    return x * x;
}
