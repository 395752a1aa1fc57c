// Device assert and trap. With the launch given, every assertion holds.
// Result: out[i] = sqrt(in[i]); with a negative input the assertion of `checked_sqrt` fails
//@arch: 75+
//@launch: kernel=checked_sqrt grid=1 block=64 arg=in:f32[64]=iota arg=out:f32[64]
//@launch: kernel=trap_on_zero grid=1 block=32 arg=in:i32[32]=iota(1) arg=out:i32[32]

extern "C" __global__ void checked_sqrt(const float *in, float *out)
{
    float x = in[threadIdx.x];
    assert(x >= 0.0f && "square root of a negative number");
    out[threadIdx.x] = sqrtf(x);
}

// out[i] = 1000 / in[i]
extern "C" __global__ void trap_on_zero(const int *in, int *out)
{
    int x = in[threadIdx.x];
    if (x == 0)
        __trap();
    out[threadIdx.x] = 1000 / x;
    if (x < -1000000)
        __brkpt();
}
