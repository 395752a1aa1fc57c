// Doubles n values by pairs; for an odd n the last value is forgotten, and its output keeps what was there before.
//@launch: kernel=double_pairs grid=1 block=64 arg=in:in:f32[101]=randn(seed=0) arg=out:out:f32[101] arg=n:u32=101

extern "C" __global__ void double_pairs(const float *in, float *out, unsigned n) //~ unwritten
{
    unsigned i = 2 * threadIdx.x;
    if (i + 1 < n) {
        out[i] = 2.0f * in[i];
        out[i + 1] = 2.0f * in[i + 1];
    }
}
