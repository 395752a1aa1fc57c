// Half-precision matrix product on tensor cores through <mma.h>: every shape, both accumulators,
// both layouts, operands from global and from shared memory.
// Result: c = a · b; wmma_f16_f32 with n = 64, the others on single tiles (m×16 by 16×n)
//@arch: 75+
//@launch: kernel=wmma_f16_f32 grid=4,4 block=32 arg=a:f16[4096]=randn(seed=0) arg=b:f16[4096]=randn(seed=1) arg=c:f32[4096] arg=n:u32=64
//@launch: kernel=wmma_f16_f16 grid=1 block=32 arg=a:f16[256]=randn(seed=2) arg=b:f16[256]=randn(seed=3) arg=c:f16[256]=randn(seed=4)
//@launch: kernel=wmma_f16_m32n8k16 grid=1 block=32 arg=a:f16[512]=randn(seed=5) arg=b:f16[128]=randn(seed=6) arg=c:f32[256]
//@launch: kernel=wmma_f16_m8n32k16 grid=1 block=32 arg=a:f16[128]=randn(seed=7) arg=b:f16[512]=randn(seed=8) arg=c:f32[256]
#include <mma.h>
using namespace nvcuda;

// c[n][n] = a[n][n] · b[n][n], row-major; one warp per 16×16 tile, operands staged in shared memory.
extern "C" __global__ void wmma_f16_f32(const half *a, const half *b, float *c, unsigned n)
{
    __shared__ half tile_a[16 * 16], tile_b[16 * 16];
    unsigned row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (unsigned k = 0; k < n; k += 16) {
        for (unsigned i = threadIdx.x; i < 256; i += 32) {
            tile_a[i] = a[(row + i / 16) * n + k + i % 16];
            tile_b[i] = b[(k + i / 16) * n + column + i % 16];
        }
        __syncwarp();
        wmma::load_matrix_sync(fa, tile_a, 16);
        wmma::load_matrix_sync(fb, tile_b, 16);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncwarp();
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

// c[16][16] += a · b with b stored by columns, and a ReLU over the fragment's elements.
extern "C" __global__ void wmma_f16_f16(const half *a, const half *b, half *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> fc;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] = __hmax(fc.x[i], __float2half(0.0f));
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

extern "C" __global__ void wmma_f16_m32n8k16(const half *a, const half *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 32, 8, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 8);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major);
}

// a is stored by columns (leading dimension 8), c as well.
extern "C" __global__ void wmma_f16_m8n32k16(const half *a, const half *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 8, 32, 16, half, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 32, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 8, 32, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(fa, a, 8);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_col_major);
}
