// Writes rows of 6 floats as float2 and float4. The float4 starts at byte 24·t + 8: a multiple of 16 for odd t only.
// Hardware stops with "misaligned address".
//@launch: kernel=fill_rows grid=1 block=32 arg=out:out:f32[32x6]

extern "C" __global__ void fill_rows(float *out)
{
    float *row = out + 6 * threadIdx.x, x = threadIdx.x;
    *(float2 *)row = make_float2(x, x + 1);
    *(float4 *)(row + 2) = make_float4(x + 2, x + 3, x + 4, x + 5); //~ alignment
}
