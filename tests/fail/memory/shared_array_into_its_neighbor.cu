// Adds two shared arrays of 32 with 64 threads. The index into the first is not wrapped, so threads 32 … 63 read the
// second array through the first. Nothing stops hardware: the address is inside the block's shared memory.
// Corpus: m02
//@launch: kernel=add grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void add(const float *in, float *out)
{
    __shared__ float x[32], y[32];
    unsigned t = threadIdx.x;
    if (t < 32) {
        x[t] = in[t];
        y[t] = in[t + 32];
    }
    __syncthreads();
    out[t] = x[t] + y[t % 32]; //~ bounds
}
