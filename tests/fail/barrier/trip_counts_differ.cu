// A loop with a __syncthreads() in it, which the two warps go round a different number of times. The barriers of
// the longer loop are met by the exit of the other warp, so nothing hangs: the short warp reads what the long one is
// still writing.
// Corpus: s07
//@launch: kernel=rounds grid=1 block=64 arg=trips:in:i32[2]=[3,2] arg=out:out:f32[64]

extern "C" __global__ void rounds(const int *trips, float *out)
{
    __shared__ float value[64];
    unsigned t = threadIdx.x;
    for (int i = 0; i < trips[t / 32]; i++) {
        value[t] = i; //~ shared-race
        __syncthreads();
    }
    out[t] = value[63 - t]; //~ shared-race
}
