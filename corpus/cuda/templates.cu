// Templates, lambdas, namespaces and operator overloading; the kernels have mangled names.
// Result: axpy<T>      y[i] = a * x[i] + y[i]
//         fir<TAPS>    out[i] = mean of in[i … i + TAPS - 1]
//         map<…>       out[i] = in[i]² + 1
//         complex_mul  out[i] = a[i] · b[i] as complex numbers
//@arch: 75+
//@launch: kernel=axpy<float> grid=1 block=64 arg=a:f32=2.5 arg=x:f32[64]=randn(seed=0) arg=y:f32[64]=randn(seed=1)
//@launch: kernel=axpy<double> grid=1 block=64 arg=a:f64=2.5 arg=x:f64[64]=randn(seed=2) arg=y:f64[64]=randn(seed=3)
//@launch: kernel=axpy<int> grid=1 block=64 arg=a:i32=3 arg=x:i32[64]=iota arg=y:i32[64]=iota
//@launch: kernel=signal::fir<5> grid=1 block=64 arg=in:f32[68]=randn(seed=4) arg=out:f32[64]
//@launch: kernel=square_plus_one grid=1 block=64 arg=in:f32[64]=randn(seed=5) arg=out:f32[64]
//@launch: kernel=complex_mul grid=1 block=32 arg=a:f32[64]=randn(seed=6) arg=b:f32[64]=randn(seed=7) arg=out:f32[64]

template <typename T> __global__ void axpy(T a, const T *x, T *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] + y[i];
}

template __global__ void axpy<float>(float, const float *, float *);
template __global__ void axpy<double>(double, const double *, double *);
template __global__ void axpy<int>(int, const int *, int *);
template __global__ void axpy<long long>(long long, const long long *, long long *);

namespace signal {

template <int TAPS> __global__ void fir(const float *in, float *out)
{
    float sum = 0.0f;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
        sum += in[threadIdx.x + tap];
    out[threadIdx.x] = sum / TAPS;
}

template __global__ void fir<3>(const float *, float *);
template __global__ void fir<5>(const float *, float *);

} // namespace signal

template <typename F> __device__ void map(const float *in, float *out, F f)
{
    out[threadIdx.x] = f(in[threadIdx.x]);
}

__global__ void square_plus_one(const float *in, float *out)
{
    float one = 1.0f;
    map(in, out, [=](float x) { return x * x + one; });
}

template <typename T> struct Complex {
    T re, im;
    __device__ Complex operator*(const Complex &o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
};

__global__ void complex_mul(const Complex<float> *a, const Complex<float> *b, Complex<float> *out)
{
    out[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x];
}
