// An array of a template with several arguments is overrun into its neighbor: the report names it in whole.
//@launch: kernel=shift<float,4> grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

template <typename T, int N> __global__ void shift(const T *in, T *out)
{
    __shared__ T head[N], tail[64];
    unsigned t = threadIdx.x;
    tail[t] = in[t];
    if (t < N)
        head[t] = 0;
    __syncthreads();
    out[t] = tail[63 - t] + head[t < N ? t + 1 : 0]; //~ bounds
}
template __global__ void shift<float, 4>(const float *, float *);
