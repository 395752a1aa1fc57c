// Writes rows of 6 floats as three float2: every address is a multiple of 8.
//@launch: kernel=fill_rows grid=1 block=32 arg=out:out:f32[32x6]

extern "C" __global__ void fill_rows(float *out)
{
    float *row = out + 6 * threadIdx.x, x = threadIdx.x;
    *(float2 *)row = make_float2(x, x + 1);
    *(float2 *)(row + 2) = make_float2(x + 2, x + 3);
    *(float2 *)(row + 4) = make_float2(x + 4, x + 5);
}
