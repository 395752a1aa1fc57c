// Warpgroup matrix product (sm_90a): m64n8k16 of f16 from shared memory through descriptors, register reallocation.
// Result: d[m][n] = sum over k of a[m][k] * b[n][k], a of 64×16, b of 8×16, both stored along k
//@arch: 90a
//@launch: kernel=wgmma_f16 grid=1 block=128 arg=a:f16[1024]=randn(seed=0) arg=b:f16[128]=randn(seed=1) arg=d:f32[512]

// Without swizzling an operand is a set of core matrices, 8 rows of 16 bytes each, 128 bytes in one piece.
// Core matrix (i, k) of rows 8i… and halves 8k… lies at (2i + k) · 128 bytes.
__device__ unsigned core_offset(unsigned row, unsigned k)
{
    return (row / 8 * 2 + k / 8) * 64 + row % 8 * 8 + k % 8;
}

// Start address, distance along k (128 bytes), distance along rows (256 bytes), in units of 16 bytes.
__device__ unsigned long long descriptor(const void *tile)
{
    unsigned long long start = (unsigned)__cvta_generic_to_shared(tile) >> 4 & 0x3fff;
    return start | 128ull >> 4 << 16 | 256ull >> 4 << 32;
}

extern "C" __global__ void __launch_bounds__(128) wgmma_f16(const unsigned short *a, const unsigned short *b, float *d)
{
    __shared__ __align__(128) unsigned short tile_a[64 * 16], tile_b[8 * 16];
    for (unsigned i = threadIdx.x; i < 64 * 16; i += 128)
        tile_a[core_offset(i / 16, i % 16)] = a[i];
    if (threadIdx.x < 8 * 16)
        tile_b[core_offset(threadIdx.x / 16, threadIdx.x % 16)] = b[threadIdx.x];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    float c[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\n\t"
                 ".reg .pred accumulate;\n\t"
                 "setp.ne.b32 accumulate, %6, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, accumulate, 1, 1, 0, 0;\n\t"
                 "}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "l"(descriptor(tile_a)), "l"(descriptor(tile_b)), "r"(0));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, column = lane % 4 * 2;
    d[row * 8 + column] = c[0];
    d[row * 8 + column + 1] = c[1];
    d[(row + 8) * 8 + column] = c[2];
    d[(row + 8) * 8 + column + 1] = c[3];
}
