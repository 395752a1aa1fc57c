// The comparison lets one thread too many through.
//@launch: kernel=fill grid=1 block=64 arg=out:f32[50] arg=n:i32=50
extern "C" __global__ void fill(float *out, int n)
{
    int i = threadIdx.x;
    if (i <= n)
        out[i] = 1.0f;
}
