// Exchanges values through global scratch, which comes from the allocator as it is. Elements from n on are read
// without having been written. Hardware gives what the allocation's last owner left.
// Corpus: m05
//@launch: kernel=exchange grid=1 block=128 arg=scratch:out:f32[128] arg=out:out:f32[128] arg=n:u32=100

extern "C" __global__ void exchange(float *scratch, float *out, unsigned n)
{
    unsigned t = threadIdx.x;
    if (t < n)
        scratch[t] = t;
    __syncthreads();
    out[t] = scratch[127 - t]; //~ uninitialized
    scratch[127 - t] = 0.0f; // left clean for the next launch
}
