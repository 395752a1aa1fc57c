// Rows of a that alternate between two matrices: even and odd ones are loaded as fragments of their own.
//@launch: kernel=product grid=1 block=32 arg=a:in:f16[32x16]=randn(seed=0) arg=b:in:f16[16x16]=randn(seed=1) arg=d:out:f32[2x16x16]
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void product(const half *a, const half *b, float *d)
{
    __shared__ __align__(32) half as[32][16];
    for (unsigned i = threadIdx.x; i < 512; i += 32)
        as[i / 16][i % 16] = a[i];
    __syncwarp();
    for (unsigned odd = 0; odd < 2; odd++) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
        wmma::fill_fragment(fc, 0.0f);
        wmma::load_matrix_sync(fa, &as[odd][0], 32);
        wmma::load_matrix_sync(fb, b, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        wmma::store_matrix_sync(d + 256 * odd, fc, 16, wmma::mem_row_major);
    }
}
