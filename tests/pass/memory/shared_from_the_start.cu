// Each thread takes the element before its own, the first its own.
// Result: out[i] = in[max(i - 1, 0)]
//@launch: kernel=previous grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void previous(const float *in, float *out)
{
    __shared__ float row[64];
    int t = threadIdx.x;
    row[t] = in[t];
    __syncthreads();
    out[t] = row[t > 0 ? t - 1 : 0];
}
