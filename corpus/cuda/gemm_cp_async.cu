// Half-precision matrix product with cp.async double buffering, ldmatrix and mma.sync.
// 128 threads compute 64×64 outputs; k advances by 32; four warps own a 32×32 quarter each.
// Result: c[m][n] = sum over k of a[m][k] * b[k][n], row-major; m, n multiples of 64, k of 32
//@arch: 80+
//@launch: kernel=gemm_cp_async grid=2,1 block=128 arg=a:f16[8192]=randn(seed=0) arg=b:f16[16384]=randn(seed=1) arg=c:f32[8192] arg=m:u32=64 arg=n:u32=128 arg=k:u32=128

constexpr unsigned M = 64, N = 64, K = 32, WARP = 32;

// Rows are padded by 16 bytes: eight rows of ldmatrix then fall into different banks.
struct SharedStorage {
    unsigned short a[2][M][K + 8];
    unsigned short b[2][K][N + 8];
};

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void cp_async_16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ void ldmatrix_x4(unsigned (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ void ldmatrix_x4_trans(unsigned (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void load_tile(SharedStorage &s, unsigned stage, const unsigned short *a, const unsigned short *b, unsigned n,
                          unsigned k, unsigned k0)
{
    unsigned row0 = blockIdx.y * M, column0 = blockIdx.x * N;
    for (unsigned i = threadIdx.x; i < M * K / 8; i += 128) {
        unsigned row = i / (K / 8), column = i % (K / 8) * 8;
        cp_async_16(&s.a[stage][row][column], &a[(row0 + row) * k + k0 + column]);
    }
    for (unsigned i = threadIdx.x; i < K * N / 8; i += 128) {
        unsigned row = i / (N / 8), column = i % (N / 8) * 8;
        cp_async_16(&s.b[stage][row][column], &b[(k0 + row) * n + column0 + column]);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128)
gemm_cp_async(const unsigned short *a, const unsigned short *b, float *c, unsigned m, unsigned n, unsigned k)
{
    __shared__ __align__(16) SharedStorage s;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned warp_row = warp / 2 * WARP, warp_column = warp % 2 * WARP;
    float sum[2][4][4] = {};

    load_tile(s, 0, a, b, n, k, 0);
    unsigned tiles = k / K;
    for (unsigned tile = 0; tile < tiles; tile++) {
        unsigned stage = tile % 2;
        if (tile + 1 < tiles) {
            load_tile(s, stage ^ 1, a, b, n, k, (tile + 1) * K);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            // No newer group was committed, so the tile to be used is the newest.
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
#pragma unroll
        for (unsigned kk = 0; kk < K; kk += 16) {
            unsigned fa[2][4], fb[2][4];
#pragma unroll
            for (unsigned i = 0; i < 2; i++)
                ldmatrix_x4(fa[i], &s.a[stage][warp_row + 16 * i + lane % 16][kk + lane / 16 * 8]);
#pragma unroll
            for (unsigned j = 0; j < 2; j++)
                ldmatrix_x4_trans(fb[j], &s.b[stage][kk + lane % 16][warp_column + 16 * j + lane / 16 * 8]);
#pragma unroll
            for (unsigned i = 0; i < 2; i++)
#pragma unroll
                for (unsigned j = 0; j < 4; j++)
                    mma_m16n8k16(sum[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
        }
        __syncthreads();
    }

    unsigned row = blockIdx.y * M + warp_row + lane / 4, column = blockIdx.x * N + warp_column + lane % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < 2; i++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            float *to = c + (row + 16 * i) * n + column + 8 * j;
            *(float2 *)to = make_float2(sum[i][j][0], sum[i][j][1]);
            *(float2 *)(to + 8 * n) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}
