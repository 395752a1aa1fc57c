// Streams of doubles, as te42kyfo/gpu-benches times them: each thread has one element. How many blocks share a multiprocessor is
// decided by dynamic shared memory, which nobody uses unless `never` is set.
extern __shared__ double held[];

#define STREAM(NAME, WHAT)                                                                                             \
    extern "C" __global__ void NAME(double *a, const double *__restrict__ b, const double *__restrict__ c, unsigned n, \
                                    int never)                                                                         \
    {                                                                                                                  \
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                                      \
        if (i >= n)                                                                                                    \
            return;                                                                                                    \
        if (never)                                                                                                     \
            held[threadIdx.x] = b[threadIdx.x];                                                                        \
        WHAT;                                                                                                          \
        if (never)                                                                                                     \
            a[i] = held[i];                                                                                            \
    }

STREAM(init, a[i] = 0.23)
STREAM(scale, a[i] = b[i] * 1.2)
STREAM(triad, a[i] = b[i] * 1.2 + c[i])

extern "C" __global__ void read(double *a, const double *__restrict__ b, const double *__restrict__, unsigned n, int never)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (never)
        held[threadIdx.x] = b[threadIdx.x];
    const double found = b[i];
    if (never || found == 123.0)
        a[i] = found + held[i];
}

// The small kernel that is launched over and over.
extern "C" __global__ void quarter(double *__restrict__ a, const double *__restrict__ b, const double *__restrict__, unsigned n, int)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = b[i] * 0.25;
}
