// d = a · b of 10 rows in a tile of 16: the rows beyond are never written, but one of them is copied to d.
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[10x16]=randn(seed=0) arg=b:in:f16[16x16]=randn(seed=1) arg=d:out:f32[11x16] arg=m:u32=10
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void product(const half *a, const half *b, float *d, unsigned m)
{
    __shared__ __align__(32) half as[16][24];
    __shared__ __align__(32) float ds[16][20];
    for (unsigned i = threadIdx.x; i < 16 * m; i += 32)
        as[i / 16][i % 16] = a[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, &as[0][0], 24); //~ uninitialized
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(&ds[0][0], fc, 20, wmma::mem_row_major);
    __syncwarp();
    for (unsigned i = threadIdx.x; i < 16 * (m + 1); i += 32)
        d[i] = ds[i / 16][i % 16]; //~ uninitialized
}
