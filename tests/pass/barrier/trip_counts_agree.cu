// A loop with a __syncthreads() in it, which both warps go round equally often.
// Corpus: s07
//@launch: kernel=rounds grid=1 block=64 arg=trips:in:i32[2]=[3,2] arg=out:out:f32[64]

extern "C" __global__ void rounds(const int *trips, float *out)
{
    __shared__ float value[64];
    unsigned t = threadIdx.x;
    for (int i = 0; i < trips[0]; i++) {
        value[t] = i;
        __syncthreads();
    }
    out[t] = value[63 - t];
}
