// The multiplication is in no group, so the wait does not cover it.
//@arch: 90a
//@launch: kernel=product grid=1 block=128 arg=a:in:f16[64x16]=randn(seed=0) arg=b:in:f16[8x16]=randn(seed=1) arg=d:out:f32[64x8]

// Rows of 16 halves as core matrices of 8 rows and 16 bytes: those of the second half of k follow those of the first.
__device__ unsigned place(unsigned rows, unsigned row, unsigned k)
{
    return k / 8 * rows * 8 + row * 8 + k % 8;
}

__device__ unsigned long long descriptor(const void *tile, unsigned rows)
{
    unsigned long long start = (unsigned)__cvta_generic_to_shared(tile) >> 4 & 0x3fff;
    return start | (unsigned long long)rows << 16 | 128ull >> 4 << 32;
}

__device__ void load(unsigned short *tile, const unsigned short *from, unsigned rows)
{
    for (unsigned i = threadIdx.x; i < rows * 16; i += 128)
        tile[place(rows, i / 16, i % 16)] = from[i];
}

__device__ void store(float *d, const float *c)
{
    unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, column = lane % 4 * 2;
    d[row * 8 + column] = c[0]; //~ async-multiply
    d[row * 8 + column + 1] = c[1];
    d[(row + 8) * 8 + column] = c[2];
    d[(row + 8) * 8 + column + 1] = c[3];
}

extern "C" __global__ void __launch_bounds__(128) product(const unsigned short *a, const unsigned short *b, float *d)
{
    __shared__ __align__(128) unsigned short tile_a[64 * 16], tile_b[8 * 16];
    unsigned long long left = descriptor(tile_a, 64), right = descriptor(tile_b, 8);
    float c[4] = {};
    load(tile_a, a, 64);
    load(tile_b, b, 8);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "l"(left), "l"(right)); //~ async-multiply
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    store(d, c);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
