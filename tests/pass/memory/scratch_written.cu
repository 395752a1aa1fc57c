// Exchanges values through global scratch, which comes from the allocator as it is, and is written before it is read.
// Corpus: m05
//@launch: kernel=exchange grid=1 block=128 arg=scratch:out:f32[128] arg=out:out:f32[128] arg=n:u32=100

extern "C" __global__ void exchange(float *scratch, float *out, unsigned n)
{
    unsigned t = threadIdx.x;
    scratch[t] = t < n ? t : 0.0f;
    __syncthreads();
    out[t] = scratch[127 - t];
    scratch[127 - t] = 0.0f; // left clean for the next launch
}
