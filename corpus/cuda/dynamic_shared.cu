// Dynamic shared memory: one array, one array carved into three of different types, and static beside dynamic.
// Result: reverse  out[i] = in[n - 1 - i] within the block
//         carved   out[i] = f[i] + d[n - 1 - i] + b[i] as double, staged through three arrays
//@arch: 75+
//@launch: kernel=reverse grid=1 block=128 shared=512 arg=in:i32[128]=iota arg=out:i32[128]
//@launch: kernel=carved grid=1 block=64 shared=832 arg=f:f32[64]=randn(seed=0) arg=d:f64[64]=randn(seed=1) arg=b:u8[64]=iota arg=out:f64[64]
//@launch: kernel=shared_sizes grid=1 block=1 shared=832 arg=out:u32[2]

extern __shared__ int flat[];

extern "C" __global__ void reverse(const int *in, int *out)
{
    flat[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = flat[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void carved(const float *f, const double *d, const unsigned char *b, double *out)
{
    extern __shared__ __align__(16) unsigned char raw[];
    __shared__ unsigned offset;
    unsigned n = blockDim.x, i = threadIdx.x;
    double *doubles = (double *)raw;
    float *floats = (float *)(doubles + n);
    unsigned char *small = (unsigned char *)(floats + n);
    if (i == 0)
        offset = n - 1;
    doubles[i] = d[i];
    floats[i] = f[i];
    small[i] = b[i];
    __syncthreads();
    out[i] = floats[i] + doubles[offset - i] + small[i];
}

// out[0] = dynamic bytes of the launch, out[1] = all shared bytes of the block
extern "C" __global__ void shared_sizes(unsigned *out)
{
    unsigned dynamic, total;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic));
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(total));
    out[0] = dynamic;
    out[1] = total;
}
