// Tensor cores on 4-bit integers and single bits (m8n8k32 and m8n8k128), gone after sm_89.
// Result: wmma_s4  c[m][n] = sum over k of a[m][k] * b[n][k], 4-bit two's complement, low nibble first
//         wmma_b1  c[m][n] = number of bits set in a[m] XOR b[n]
//@arch: 75 80 86 89
//@launch: kernel=wmma_s4 grid=1 block=32 arg=a:u32[32]=randint(seed=0) arg=b:u32[32]=randint(seed=1) arg=c:i32[64]
//@launch: kernel=wmma_b1 grid=1 block=32 arg=a:u32[32]=randint(seed=2) arg=b:u32[32]=randint(seed=3) arg=c:i32[64]
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_s4(const unsigned *a, const unsigned *b, int *c)
{
    wmma::fragment<wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::s4, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, wmma::experimental::precision::s4, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> sum;
    wmma::fill_fragment(sum, 0);
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major);
}

extern "C" __global__ void wmma_b1(const unsigned *a, const unsigned *b, int *c)
{
    wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> sum;
    wmma::fill_fragment(sum, 0);
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::bmma_sync(sum, fa, fb, sum, wmma::experimental::bmmaBitOpXOR);
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major);
}
