// Keeps every second of 128 values, which lie in 512 bytes of dynamic shared memory; 64 threads take one.
// Corpus: m06
//@launch: kernel=halve grid=1 block=128 shared=512 arg=in:in:f32[128]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void halve(const float *in, float *out)
{
    extern __shared__ float buffer[];
    unsigned t = threadIdx.x;
    buffer[t] = in[t];
    __syncthreads();
    if (t < 64)
        out[t] = buffer[2 * t];
}
