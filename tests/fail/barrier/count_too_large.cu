// Two of three warps exchange through shared memory at barrier 1, whose count says 96; the third waits at barrier 2 for
// all. Hardware hangs.
//@launch: kernel=exchange grid=1 block=96 arg=in:in:f32[96]=randn(seed=0) arg=out:out:f32[96]

extern "C" __global__ void exchange(const float *in, float *out)
{
    __shared__ float tile[96];
    unsigned t = threadIdx.x;
    tile[t] = in[t];
    if (t < 64)
        asm volatile("bar.sync 1, 96;" ::: "memory"); //~ deadlock
    float value = tile[t < 64 ? t ^ 32 : t];
    asm volatile("bar.sync 2, 96;" ::: "memory"); //~ deadlock
    out[t] = value;
}
