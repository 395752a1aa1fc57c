// A 64 × 64 tile of a product over k in steps of 64, two buffers with the 128-byte swizzle: the next step is loaded while the
// tensor core works on the current one.
//@arch: 90a
//@launch: kernel=gemm grid=2 block=128 arg=a:in:f16[128x256]=randn(seed=0) arg=b:in:f16[64x256]=randn(seed=1) arg=d:out:f32[128x64] arg=k:i32=256

constexpr unsigned STEP = 64, TILE = 64 * STEP;

__device__ unsigned long long descriptor(const void *tile)
{
    unsigned long long start = (unsigned)__cvta_generic_to_shared(tile) >> 4 & 0x3fff;
    return start | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// Rows of 128 bytes; the 16-byte pieces of row r are exchanged by r mod 8.
__device__ void load(unsigned short *tile, const unsigned short *from, unsigned pitch)
{
    for (unsigned i = threadIdx.x; i < TILE / 8; i += 128) {
        unsigned row = i / 8, piece = i % 8;
        uint4 value = *reinterpret_cast<const uint4 *>(from + row * pitch + piece * 8);
        *reinterpret_cast<uint4 *>(tile + row * STEP + (piece ^ row % 8) * 8) = value;
    }
}

extern "C" __global__ void __launch_bounds__(128) gemm(const unsigned short *a, const unsigned short *b, float *d, int k)
{
    __shared__ __align__(1024) unsigned short tile_a[2][TILE], tile_b[2][TILE];
    float c[32] = {};
    a += blockIdx.x * 64 * k;
    load(tile_a[0], a, k);
    load(tile_b[0], b, k);
    for (int step = 0; step < k; step += STEP) {
        int stage = step / STEP & 1;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (unsigned part = 0; part < STEP; part += 16) {
            asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                         "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                         "%32, %33, 1, 1, 1, 0, 0;"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                           "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                           "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                           "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                           "+f"(c[30]), "+f"(c[31])
                         : "l"(descriptor(tile_a[stage] + part)), "l"(descriptor(tile_b[stage] + part)));
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (step + STEP < k) {
            load(tile_a[stage ^ 1], a + step + STEP, k);
            load(tile_b[stage ^ 1], b + step + STEP, k);
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    unsigned lane = threadIdx.x % 32, row = blockIdx.x * 64 + threadIdx.x / 32 * 16 + lane / 4;
    for (unsigned i = 0; i < 32; i++)
        d[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = c[i];
}
