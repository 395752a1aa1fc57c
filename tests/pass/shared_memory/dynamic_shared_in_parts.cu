// Dynamic shared memory in two parts: 128 floats and, behind them, 128 16-bit indices.
// Result: out[i] = in[37 * i % 128]
//@launch: kernel=gather grid=1 block=128 shared=768 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[128]

extern "C" __global__ void gather(const float *in, float *out)
{
    extern __shared__ unsigned char memory[];
    float *values = (float *)memory;
    unsigned short *index = (unsigned short *)(memory + 128 * sizeof(float));
    unsigned t = threadIdx.x;
    values[t] = in[t];
    index[127 - t] = 37 * (127 - t) % 128;
    __syncthreads();
    out[t] = values[index[t]];
}
