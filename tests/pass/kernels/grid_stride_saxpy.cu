// y = a * x + y by a grid-stride loop over vectors of four, with a tail of single elements.
// Result: y[i] = 2 * x[i] + old y[i]
//@launch: kernel=saxpy grid=2 block=64 arg=n:u32=1003 arg=a:f32=2 arg=x:in:f32[1003]=iota arg=y:inout:f32[1003]=ones

extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y)
{
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    for (unsigned i = first; i < n / 4; i += stride) {
        float4 from = ((const float4 *)x)[i], to = ((float4 *)y)[i];
        ((float4 *)y)[i] = make_float4(a * from.x + to.x, a * from.y + to.y, a * from.z + to.z, a * from.w + to.w);
    }
    for (unsigned i = n / 4 * 4 + first; i < n; i += stride)
        y[i] += a * x[i];
}
