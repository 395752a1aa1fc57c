// Half-precision matrix product with ordinary loads into shared memory, ldmatrix and mma.sync.
// 128 threads compute 64×64 outputs; k advances by 32; four warps own a 32×32 quarter each.
// c[m][n] = sum over k of a[m][k] * b[k][n], row-major; square of side n, a multiple of 64
constexpr unsigned M = 64, N = 64, K = 32, WARP = 32;

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

extern "C" __global__ void __launch_bounds__(128)
mma_gemm(const unsigned short *a, const unsigned short *b, float *c, unsigned n)
{
    __shared__ __align__(16) unsigned short tile_a[M][K + 8], tile_b[K][N + 8];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned warp_row = warp / 2 * WARP, warp_column = warp % 2 * WARP;
    unsigned row0 = blockIdx.y * M, column0 = blockIdx.x * N;
    float sum[2][4][4] = {};
    for (unsigned k0 = 0; k0 < n; k0 += K) {
        for (unsigned i = threadIdx.x; i < M * K / 8; i += 128) {
            unsigned row = i / (K / 8), column = i % (K / 8) * 8;
            *(uint4 *)&tile_a[row][column] = *(const uint4 *)&a[(row0 + row) * n + k0 + column];
        }
        for (unsigned i = threadIdx.x; i < K * N / 8; i += 128) {
            unsigned row = i / (N / 8), column = i % (N / 8) * 8;
            *(uint4 *)&tile_b[row][column] = *(const uint4 *)&b[(k0 + row) * n + column0 + column];
        }
        __syncthreads();
#pragma unroll
        for (unsigned kk = 0; kk < K; kk += 16) {
            unsigned fa[2][4], fb[2][4];
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                const void *row = &tile_a[warp_row + 16 * i + lane % 16][kk + lane / 16 * 8];
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                             : "r"(shared_address(row)) : "memory");
            }
#pragma unroll
            for (unsigned j = 0; j < 2; j++) {
                const void *row = &tile_b[kk + lane % 16][warp_column + 16 * j + lane / 16 * 8];
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j][2]), "=r"(fb[j][3])
                             : "r"(shared_address(row)) : "memory");
            }
#pragma unroll
            for (unsigned i = 0; i < 2; i++)
#pragma unroll
                for (unsigned j = 0; j < 4; j++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                                 "{%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                                 : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]),
                                   "r"(fb[j / 2][j % 2 * 2]), "r"(fb[j / 2][j % 2 * 2 + 1]));
        }
        __syncthreads();
    }
    unsigned row = row0 + warp_row + lane / 4, column = column0 + warp_column + lane % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < 2; i++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            float *to = c + (row + 16 * i) * n + column + 8 * j;
            *(float2 *)to = make_float2(sum[i][j][0], sum[i][j][1]);
            *(float2 *)(to + 8 * n) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}
