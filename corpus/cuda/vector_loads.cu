// Loads and stores of vector types and of every cache operator, and unaligned bytes.
// Result: copy_vectors  out = in, 16, 8, 4, 2 and 1 bytes at a time, by block number
//         cached        out[i] = sum of five loads of in[i] with different cache operators
//         struct_of_int3 out[i] = in[i] with its members rotated
//@arch: 75+
//@launch: kernel=copy_vectors grid=5 block=64 arg=in:u8[5120]=randint(0,255,seed=0) arg=out:u8[5120]
//@launch: kernel=cached grid=1 block=64 arg=in:f32[64]=randn(seed=1) arg=out:f32[64]
//@launch: kernel=struct_of_int3 grid=1 block=64 arg=in:i32[192]=iota arg=out:i32[192]
//@launch: kernel=wide_types grid=1 block=32 arg=in:f64[64]=randn(seed=2) arg=out:f64[64]

template <typename T> __device__ void copy(const void *in, void *out)
{
    // A block owns 1024 bytes.
    const T *from = (const T *)((const char *)in + blockIdx.x * 1024);
    T *to = (T *)((char *)out + blockIdx.x * 1024);
    for (unsigned i = threadIdx.x; i < 1024 / sizeof(T); i += blockDim.x)
        to[i] = from[i];
}

extern "C" __global__ void copy_vectors(const void *in, void *out)
{
    switch (blockIdx.x) {
    case 0: copy<uint4>(in, out); break;
    case 1: copy<float2>(in, out); break;
    case 2: copy<uchar4>(in, out); break;
    case 3: copy<short>(in, out); break;
    default: copy<char>(in, out); break;
    }
}

extern "C" __global__ void cached(const float *in, float *out)
{
    const float *p = in + threadIdx.x;
    float sum = __ldg(p) + __ldca(p) + __ldcg(p) + __ldcs(p) + __ldcv(p);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
    __stwt(out + threadIdx.x, sum);
}

extern "C" __global__ void struct_of_int3(const int3 *in, int3 *out)
{
    int3 v = in[threadIdx.x];
    out[threadIdx.x] = make_int3(v.y, v.z, v.x);
}

// out = in with the pair swapped
extern "C" __global__ void wide_types(const double2 *in, double2 *out)
{
    double2 v = __ldg(in + threadIdx.x);
    __stcs(out + threadIdx.x, make_double2(v.y, v.x));
}
