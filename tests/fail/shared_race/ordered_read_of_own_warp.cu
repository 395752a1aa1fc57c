// Lane 5 of warp 1 reads a number before its warp meets, which orders it before the write of lane 6. Thread 3 of warp 0 reads
// it too, and nothing orders that read: it is the one to name, although the other was made after it.
//@launch: kernel=replace grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void replace(const float *in, float *out)
{
    __shared__ float best;
    unsigned t = threadIdx.x;
    float seen = in[t];
    if (t == 0)
        best = in[0];
    __syncthreads();
    if (t == 37)
        seen += (volatile float &)best;
    __syncwarp();
    if (t == 3)
        seen -= (volatile float &)best; //~ shared-race
    if (t == 38)
        best = in[38]; //~ shared-race
    out[t] = seen;
}
