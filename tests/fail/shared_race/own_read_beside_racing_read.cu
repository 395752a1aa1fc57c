// Thread 33 reads a number that thread 40 of the same warp reads too, and then replaces it. Its own read is harmless: the
// report names the read of thread 40, which comes later in the program.
//@launch: kernel=replace grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void replace(const float *in, float *out)
{
    __shared__ float best;
    unsigned t = threadIdx.x;
    float seen = in[t];
    if (t == 0)
        best = in[0];
    __syncthreads();
    if (t == 33)
        out[33] = (volatile float &)best;
    if (t == 40)
        out[40] = (volatile float &)best; //~ shared-race
    if (t == 33)
        best = seen; //~ shared-race
    if (t != 33 && t != 40)
        out[t] = seen;
}
