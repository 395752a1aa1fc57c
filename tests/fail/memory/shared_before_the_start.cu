// Thread 0 takes the element before the first of a shared array: 4 bytes before its start.
//@launch: kernel=previous grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void previous(const float *in, float *out)
{
    __shared__ float row[64];
    int t = threadIdx.x;
    row[t] = in[t];
    __syncthreads();
    out[t] = row[t - 1]; //~ bounds
}
