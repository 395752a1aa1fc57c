// mma.sync from inline PTX: f16, bf16, tf32 and 8-bit integers, fragments filled by hand.
//
// Fragment layout of m16n8 with g = lane / 4 and t = lane % 4:
//   C  c0 c1: row g, columns 2t 2t+1      c2 c3: row g+8, the same columns
//   A  four 32-bit registers: (g, first half of k) (g+8, first) (g, second) (g+8, second), elements t·E…
//   B  two 32-bit registers: column g, first and second half of k; E elements of k per register
//
// Result: d[m][n] = sum over k of a[m][k] * b[n][k]  (b is stored by columns, so both are read along k)
//@arch: 80+
//@launch: kernel=mma_f16_m16n8k16 grid=1 block=32 arg=a:f16[256]=randn(seed=0) arg=b:f16[128]=randn(seed=1) arg=d:f32[128]
//@launch: kernel=mma_f16_m16n8k16_half grid=1 block=32 arg=a:f16[256]=randn(seed=2) arg=b:f16[128]=randn(seed=3) arg=d:f16[128]
//@launch: kernel=mma_bf16_m16n8k16 grid=1 block=32 arg=a:bf16[256]=randn(seed=4) arg=b:bf16[128]=randn(seed=5) arg=d:f32[128]
//@launch: kernel=mma_tf32_m16n8k8 grid=1 block=32 arg=a:f32[128]=randn(seed=6) arg=b:f32[64]=randn(seed=7) arg=d:f32[128]
//@launch: kernel=mma_s8_m16n8k32 grid=1 block=32 arg=a:i8[512]=randint(-128,127,seed=8) arg=b:i8[256]=randint(-128,127,seed=9) arg=d:i32[128]
//@launch: kernel=mma_u8_s8_m16n8k32 grid=1 block=32 arg=a:u8[512]=randint(0,255,seed=10) arg=b:i8[256]=randint(-128,127,seed=11) arg=d:i32[128]

// The A and B registers of this lane, for rows of `words` 32-bit words; the second half of k starts at words/2.
struct Operands {
    unsigned a[4], b[2];

    __device__ Operands(const unsigned *a_rows, const unsigned *b_rows, unsigned words)
    {
        unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
        a[0] = a_rows[g * words + t];
        a[1] = a_rows[(g + 8) * words + t];
        a[2] = a_rows[g * words + words / 2 + t];
        a[3] = a_rows[(g + 8) * words + words / 2 + t];
        b[0] = b_rows[g * words + t];
        b[1] = b_rows[g * words + words / 2 + t];
    }
};

template <typename T> __device__ void store(T *d, const T (&c)[4])
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    d[g * 8 + 2 * t] = c[0];
    d[g * 8 + 2 * t + 1] = c[1];
    d[(g + 8) * 8 + 2 * t] = c[2];
    d[(g + 8) * 8 + 2 * t + 1] = c[3];
}

#define MMA_F32(types)                                                                                         \
    asm volatile("mma.sync.aligned." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"  \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                              \
                 : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]), "r"(o.b[1]))

#define MMA_S32(types)                                                                                         \
    asm volatile("mma.sync.aligned." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"  \
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                              \
                 : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]), "r"(o.b[1]))

extern "C" __global__ void mma_f16_m16n8k16(const unsigned *a, const unsigned *b, float *d)
{
    Operands o(a, b, 8);
    float c[4] = {};
    MMA_F32("m16n8k16.row.col.f32.f16.f16.f32");
    store(d, c);
}

extern "C" __global__ void mma_f16_m16n8k16_half(const unsigned *a, const unsigned *b, unsigned *d)
{
    Operands o(a, b, 8);
    unsigned c[2] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(c[0]), "+r"(c[1])
                 : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]), "r"(o.b[1]));
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    d[g * 4 + t] = c[0];
    d[(g + 8) * 4 + t] = c[1];
}

extern "C" __global__ void mma_bf16_m16n8k16(const unsigned *a, const unsigned *b, float *d)
{
    Operands o(a, b, 8);
    float c[4] = {};
    MMA_F32("m16n8k16.row.col.f32.bf16.bf16.f32");
    store(d, c);
}

extern "C" __global__ void mma_tf32_m16n8k8(const float *a, const float *b, float *d)
{
    Operands o((const unsigned *)a, (const unsigned *)b, 8);
    for (unsigned &bits : o.a)
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(bits)));
    for (unsigned &bits : o.b)
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(bits)));
    float c[4] = {};
    MMA_F32("m16n8k8.row.col.f32.tf32.tf32.f32");
    store(d, c);
}

extern "C" __global__ void mma_s8_m16n8k32(const unsigned *a, const unsigned *b, int *d)
{
    Operands o(a, b, 8);
    int c[4] = {};
    MMA_S32("m16n8k32.row.col.s32.s8.s8.s32");
    store(d, c);
}

extern "C" __global__ void mma_u8_s8_m16n8k32(const unsigned *a, const unsigned *b, int *d)
{
    Operands o(a, b, 8);
    int c[4] = {};
    MMA_S32("m16n8k32.row.col.satfinite.s32.u8.s8.s32");
    store(d, c);
}
