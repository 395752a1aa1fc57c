// 64-bit and extended-precision integers, and double arithmetic with every rounding.
// Result: see each kernel
//@arch: 75+
//@options: --device-int128
//@launch: kernel=int64_mix grid=1 block=64 arg=a:i64[64]=randint(seed=0) arg=b:i64[64]=randint(seed=1) arg=out:i64[512]
//@launch: kernel=multiply_128 grid=1 block=64 arg=a:u64[64]=randint(seed=2) arg=b:u64[64]=randint(seed=3) arg=out:u64[128]
//@launch: kernel=add_256 grid=1 block=16 arg=a:u32[128]=randint(seed=4) arg=b:u32[128]=randint(seed=5) arg=out:u32[128]
//@launch: kernel=double_roundings grid=1 block=64 arg=a:f64[64]=randn(seed=6) arg=b:f64[64]=randn(seed=7) arg=out:f64[896]
//@launch: kernel=double_convert grid=1 block=64 arg=a:f64[64]=randn(seed=8) arg=out:i64[320]

// Sum, difference, product, quotient, remainder, shifts, high product; b is never 0.
extern "C" __global__ void int64_mix(const long long *a, const long long *b, long long *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    long long x = a[i], y = b[i] | 1;
    unsigned long long ux = (unsigned long long)x, uy = (unsigned long long)y;
    out[i] = (long long)(ux + uy);
    out[n + i] = (long long)(ux - uy);
    out[2 * n + i] = (long long)(ux * uy);
    out[3 * n + i] = (long long)(ux / uy);
    out[4 * n + i] = x % (y == -1 ? 1 : y);
    out[5 * n + i] = x >> (i & 63);
    out[6 * n + i] = (long long)(ux << (i & 63));
    out[7 * n + i] = __mul64hi(x, y);
}

// out[2i], out[2i+1] = the low and high word of a[i] * b[i]
extern "C" __global__ void multiply_128(const unsigned long long *a, const unsigned long long *b,
                                        unsigned long long *out)
{
    unsigned i = threadIdx.x;
    unsigned __int128 product = (unsigned __int128)a[i] * b[i];
    out[2 * i] = (unsigned long long)product;
    out[2 * i + 1] = (unsigned long long)(product >> 64);
}

// Eight 32-bit words, lowest first, added with the carry flag.
extern "C" __global__ void add_256(const unsigned *a, const unsigned *b, unsigned *out)
{
    a += threadIdx.x * 8;
    b += threadIdx.x * 8;
    out += threadIdx.x * 8;
    unsigned r[8];
    asm("add.cc.u32 %0, %8, %16;\n\t"
        "addc.cc.u32 %1, %9, %17;\n\t"
        "addc.cc.u32 %2, %10, %18;\n\t"
        "addc.cc.u32 %3, %11, %19;\n\t"
        "addc.cc.u32 %4, %12, %20;\n\t"
        "addc.cc.u32 %5, %13, %21;\n\t"
        "addc.cc.u32 %6, %14, %22;\n\t"
        "addc.u32 %7, %15, %23;"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]),
          "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    for (int i = 0; i < 8; i++)
        out[i] = r[i];
}

// Sum, product and a·b + a in the modes rn, rz, ru, rd; then the quotient and the square root of |a|, rn.
extern "C" __global__ void double_roundings(const double *a, const double *b, double *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    double x = a[i], y = b[i];
    out[i] = __dadd_rn(x, y);
    out[n + i] = __dadd_rz(x, y);
    out[2 * n + i] = __dadd_ru(x, y);
    out[3 * n + i] = __dadd_rd(x, y);
    out[4 * n + i] = __dmul_rn(x, y);
    out[5 * n + i] = __dmul_rz(x, y);
    out[6 * n + i] = __dmul_ru(x, y);
    out[7 * n + i] = __dmul_rd(x, y);
    out[8 * n + i] = __fma_rn(x, y, x);
    out[9 * n + i] = __fma_rz(x, y, x);
    out[10 * n + i] = __fma_ru(x, y, x);
    out[11 * n + i] = __fma_rd(x, y, x);
    out[12 * n + i] = x / y;
    out[13 * n + i] = sqrt(fabs(x));
}

// Truncated, floor, ceiling, nearest, and the bits.
extern "C" __global__ void double_convert(const double *a, long long *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    double x = a[i] * 1000.0;
    out[i] = (long long)x;
    out[n + i] = __double2ll_rd(x);
    out[2 * n + i] = __double2ll_ru(x);
    out[3 * n + i] = __double2ll_rn(x);
    out[4 * n + i] = __double_as_longlong(x);
}
