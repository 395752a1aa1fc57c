// Tensor cores through <mma.h> for bf16, tf32, f64 and 8-bit integers.
// Result: c = a · b, row-major unless the kernel says otherwise
//@arch: 80+
//@launch: kernel=wmma_bf16 grid=1 block=32 arg=a:bf16[256]=randn(seed=0) arg=b:bf16[256]=randn(seed=1) arg=c:f32[256]
//@launch: kernel=wmma_tf32 grid=1 block=32 arg=a:f32[128]=randn(seed=2) arg=b:f32[128]=randn(seed=3) arg=c:f32[256]
//@launch: kernel=wmma_f64 grid=1 block=32 arg=a:f64[32]=randn(seed=4) arg=b:f64[32]=randn(seed=5) arg=c:f64[64]
//@launch: kernel=wmma_s8 grid=1 block=32 arg=a:i8[256]=randint(-128,127,seed=6) arg=b:i8[256]=randint(-128,127,seed=7) arg=c:i32[256]
//@launch: kernel=wmma_u8 grid=1 block=32 arg=a:u8[512]=randint(0,255,seed=8) arg=b:u8[128]=randint(0,255,seed=9) arg=c:i32[256]
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// a[16][8], b[8][16]; the operands are rounded to tf32 first.
extern "C" __global__ void wmma_tf32(const float *a, const float *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(fa, a, 8);
    wmma::load_matrix_sync(fb, b, 16);
    for (int i = 0; i < fa.num_elements; i++)
        fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; i++)
        fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// a[8][4], b[4][8] stored by columns (leading dimension 4).
extern "C" __global__ void wmma_f64(const double *a, const double *b, double *c)
{
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
    wmma::fill_fragment(sum, 0.0);
    wmma::load_matrix_sync(fa, a, 4);
    wmma::load_matrix_sync(fb, b, 4);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major);
}

extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
    wmma::fill_fragment(sum, 0);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// a[32][16], b[16][8]; sums saturate at the ends of int.
extern "C" __global__ void wmma_u8(const unsigned char *a, const unsigned char *b, int *c)
{
    wmma::fragment<wmma::matrix_a, 32, 8, 16, unsigned char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, unsigned char, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> sum;
    wmma::fill_fragment(sum, 0x7fff0000);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 8);
    wmma::mma_sync(sum, fa, fb, sum, true);
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major);
}
