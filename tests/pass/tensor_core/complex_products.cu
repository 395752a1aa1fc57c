// Complex matrices, C = A·B: the real part is re·re − im·im, the imaginary part re·im + im·re. In the imaginary sum each k of A meets
// the k of B with the other part: its neighbor where parts are interleaved, or the other half of a row where they stand side by side.
//@launch: kernel=side_by_side grid=1 block=32 arg=a:in:f16[16x64]=randn(seed=3) arg=b:in:f16[8x64]=randn(seed=4) arg=c:out:f32[2x16x8]
//@launch: kernel=interleaved grid=1 block=32 arg=a:in:f16[16x64]=randn(seed=3) arg=b:in:f16[8x64]=randn(seed=4) arg=c:out:f32[2x16x8]

__device__ void mma(float *c, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ unsigned two(const unsigned short *p, int step) { return p[0] | (unsigned)p[step] << 16; }

// One part of 16 complex columns from k on: `step` elements from one to the next.
__device__ void load_a(unsigned *a, const unsigned short *p, int step)
{
    int row = threadIdx.x / 4, k = threadIdx.x % 4 * 2;
    for (int i = 0; i < 4; i++)
        a[i] = two(p + (row + i % 2 * 8) * 64 + (k + i / 2 * 8) * step, step);
}

__device__ void load_b(unsigned *b, const unsigned short *p, int step)
{
    int row = threadIdx.x / 4, k = threadIdx.x % 4 * 2;
    for (int i = 0; i < 2; i++)
        b[i] = two(p + row * 64 + (k + i * 8) * step, step);
}

__device__ void multiply(const unsigned short *a, const unsigned short *b, float *c, int step, int part)
{
    float re[4] = {}, im[4] = {};
    for (int k = 0; k < 32; k += 16) {
        unsigned ar[4], ai[4], minus[4], br[2], bi[2];
        load_a(ar, a + k * step, step);
        load_a(ai, a + part + k * step, step);
        load_b(br, b + k * step, step);
        load_b(bi, b + part + k * step, step);
        for (int i = 0; i < 4; i++)
            minus[i] = ai[i] ^ 0x80008000u;
        mma(re, ar, br);
        mma(re, minus, bi);
        mma(im, ar, bi);
        mma(im, ai, br);
    }
    for (int i = 0; i < 4; i++) {
        int at = (threadIdx.x / 4 + i / 2 * 8) * 8 + threadIdx.x % 4 * 2 + i % 2;
        c[at] = re[i];
        c[128 + at] = im[i];
    }
}

extern "C" __global__ void side_by_side(const unsigned short *a, const unsigned short *b, float *c)
{
    multiply(a, b, c, 1, 32);
}

extern "C" __global__ void interleaved(const unsigned short *a, const unsigned short *b, float *c)
{
    multiply(a, b, c, 2, 1);
}
