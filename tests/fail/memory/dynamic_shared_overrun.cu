// Keeps every second of 128 values, which lie in 512 bytes of dynamic shared memory. All 128 threads take one, so half
// of them read past what the launch gives. Hardware stops with "out of range shared address", or reads what lies there.
// Corpus: m06
//@launch: kernel=halve grid=1 block=128 shared=512 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[128]

extern "C" __global__ void halve(const float *in, float *out)
{
    extern __shared__ float buffer[];
    unsigned t = threadIdx.x;
    buffer[t] = in[t];
    __syncthreads();
    out[t] = buffer[2 * t]; //~ bounds
}
