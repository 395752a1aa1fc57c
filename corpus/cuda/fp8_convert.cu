// <cuda_fp8.h>: conversions between float, half, bfloat16 and the two FP8 formats, scalar, pair and quad.
// Below sm_89 the header computes them with integers; above, they are cvt instructions.
// Result: see each kernel; conversions round to nearest even and saturate to the largest finite value
//@arch: 75+
//@launch: kernel=float_to_fp8 grid=1 block=256 arg=in:f32[256]=randn(seed=0) arg=e4m3:u8[256] arg=e5m2:u8[256]
//@launch: kernel=fp8_to_float grid=1 block=256 arg=e4m3:f32[256] arg=e5m2:f32[256]
//@launch: kernel=half_to_fp8 grid=1 block=128 arg=in:f16[256]=randn(seed=1) arg=e4m3:u16[128] arg=e5m2:u16[128]
//@launch: kernel=bf16_to_fp8 grid=1 block=128 arg=in:bf16[256]=randn(seed=2) arg=e4m3:u16[128] arg=e5m2:u16[128]
//@launch: kernel=fp8_quads grid=1 block=64 arg=in:f32[256]=randn(seed=3) arg=out:f32[256] arg=scale:f32=16
//@launch: kernel=double_to_fp8 grid=1 block=64 arg=in:f64[64]=randn(seed=4) arg=out:u8[64]
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void float_to_fp8(const float *in, unsigned char *e4m3, unsigned char *e5m2)
{
    unsigned i = threadIdx.x;
    e4m3[i] = __nv_cvt_float_to_fp8(in[i], __NV_SATFINITE, __NV_E4M3);
    e5m2[i] = __nv_cvt_float_to_fp8(in[i], __NV_SATFINITE, __NV_E5M2);
}

// Thread i decodes the byte i.
extern "C" __global__ void fp8_to_float(float *e4m3, float *e5m2)
{
    unsigned i = threadIdx.x;
    __nv_fp8_e4m3 x;
    __nv_fp8_e5m2 y;
    x.__x = y.__x = (unsigned char)i;
    e4m3[i] = float(x);
    e5m2[i] = float(y);
}

// Pairs: the lower half of the result holds the first element.
extern "C" __global__ void half_to_fp8(const __half2 *in, unsigned short *e4m3, unsigned short *e5m2)
{
    unsigned i = threadIdx.x;
    e4m3[i] = __nv_cvt_halfraw2_to_fp8x2(in[i], __NV_SATFINITE, __NV_E4M3);
    e5m2[i] = __nv_cvt_halfraw2_to_fp8x2(in[i], __NV_NOSAT, __NV_E5M2);
}

extern "C" __global__ void bf16_to_fp8(const __nv_bfloat162 *in, unsigned short *e4m3, unsigned short *e5m2)
{
    unsigned i = threadIdx.x;
    e4m3[i] = __nv_cvt_bfloat16raw2_to_fp8x2(in[i], __NV_SATFINITE, __NV_E4M3);
    e5m2[i] = __nv_cvt_bfloat16raw2_to_fp8x2(in[i], __NV_SATFINITE, __NV_E5M2);
}

// out = float(e4m3(in / scale)) * scale, four at a time.
extern "C" __global__ void fp8_quads(const float4 *in, float4 *out, float scale)
{
    float4 v = in[threadIdx.x];
    __nv_fp8x4_e4m3 packed(make_float4(v.x / scale, v.y / scale, v.z / scale, v.w / scale));
    float4 back = float4(packed);
    out[threadIdx.x] = make_float4(back.x * scale, back.y * scale, back.z * scale, back.w * scale);
}

extern "C" __global__ void double_to_fp8(const double *in, unsigned char *out)
{
    out[threadIdx.x] = __nv_cvt_double_to_fp8(in[threadIdx.x], __NV_SATFINITE, __NV_E4M3);
}
