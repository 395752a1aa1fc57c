// The math library in float and double, precise and fast, with the slow paths (argument reduction, subnormals).
// Result: out[f * n + i] = the f-th function listed in the kernel, of x[i] (and y[i])
//@arch: 75+
//@launch: kernel=math_float grid=1 block=128 arg=x:f32[128]=uniform(0.01,20,seed=0) arg=y:f32[128]=uniform(0.1,3,seed=1) arg=out:f32[3072]
//@launch: kernel=math_fast grid=1 block=128 arg=x:f32[128]=uniform(0.01,20,seed=2) arg=y:f32[128]=uniform(0.1,3,seed=3) arg=out:f32[1280]
//@launch: kernel=math_double grid=1 block=64 arg=x:f64[64]=uniform(0.01,20,seed=4) arg=y:f64[64]=uniform(0.1,3,seed=5) arg=out:f64[1024]
//@launch: kernel=math_huge_sine grid=1 block=64 arg=x:f32[64]=uniform(100000,1000000000,seed=6) arg=out:f32[128]

extern "C" __global__ void math_float(const float *in_x, const float *in_y, float *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    float x = in_x[i], y = in_y[i];
    out[i] = sinf(x);
    out[n + i] = cosf(x);
    out[2 * n + i] = tanf(y);
    out[3 * n + i] = expf(x);
    out[4 * n + i] = exp2f(y);
    out[5 * n + i] = expm1f(y);
    out[6 * n + i] = logf(x);
    out[7 * n + i] = log2f(x);
    out[8 * n + i] = log1pf(x);
    out[9 * n + i] = powf(x, y);
    out[10 * n + i] = sqrtf(x);
    out[11 * n + i] = rsqrtf(x);
    out[12 * n + i] = cbrtf(x);
    out[13 * n + i] = hypotf(x, y);
    out[14 * n + i] = tanhf(y);
    out[15 * n + i] = atan2f(x, y);
    out[16 * n + i] = asinf(y / 3.5f);
    out[17 * n + i] = erff(y);
    out[18 * n + i] = lgammaf(x);
    out[19 * n + i] = fmodf(x, y);
    out[20 * n + i] = ldexpf(x, (int)y);
    out[21 * n + i] = rintf(x) + floorf(y) - ceilf(x) + truncf(y) + roundf(x);
    int exponent;
    out[22 * n + i] = frexpf(x, &exponent) + exponent;
    out[23 * n + i] = copysignf(fdimf(x, y), -1.0f);
}

extern "C" __global__ void math_fast(const float *in_x, const float *in_y, float *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    float x = in_x[i], y = in_y[i];
    out[i] = __sinf(y);
    out[n + i] = __cosf(y);
    out[2 * n + i] = __expf(y);
    out[3 * n + i] = __logf(x);
    out[4 * n + i] = __powf(x, y);
    out[5 * n + i] = __fdividef(x, y);
    out[6 * n + i] = __frcp_rz(x);
    out[7 * n + i] = __fsqrt_ru(x);
    out[8 * n + i] = __fmaf_rd(x, y, x);
    out[9 * n + i] = __saturatef(x * y - 1.0f);
}

extern "C" __global__ void math_double(const double *in_x, const double *in_y, double *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    double x = in_x[i], y = in_y[i];
    out[i] = sin(x);
    out[n + i] = cos(x);
    out[2 * n + i] = exp(y);
    out[3 * n + i] = log(x);
    out[4 * n + i] = pow(x, y);
    out[5 * n + i] = sqrt(x);
    out[6 * n + i] = rsqrt(x);
    out[7 * n + i] = cbrt(x);
    out[8 * n + i] = tanh(y);
    out[9 * n + i] = atan(x);
    out[10 * n + i] = erfc(y);
    out[11 * n + i] = fmod(x, y);
    out[12 * n + i] = x / y;
    out[13 * n + i] = fma(x, y, x);
    out[14 * n + i] = rint(x) + floor(y);
    out[15 * n + i] = fmax(x, y) - fmin(x, y);
}

// Arguments so large that π/2 must be subtracted with many digits: the library takes its slow path.
extern "C" __global__ void math_huge_sine(const float *x, float *out)
{
    float s, c;
    sincosf(x[threadIdx.x], &s, &c);
    out[threadIdx.x] = s;
    out[blockDim.x + threadIdx.x] = c;
}
