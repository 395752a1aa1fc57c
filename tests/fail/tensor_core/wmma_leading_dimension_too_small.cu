// d = a · b through a tile in shared memory with rows of 32 elements: load_matrix_sync is given 16, the width of a fragment.
//@launch: kernel=product grid=1 block=128 arg=a:in:f16[64x32]=randn(seed=0) arg=b:in:f16[32x16]=randn(seed=1) arg=d:out:f32[64x16]
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void product(const half *a, const half *b, float *d)
{
    __shared__ __align__(32) half as[64][32], bs[32][24];
    unsigned warp = threadIdx.x / 32;
    for (unsigned i = threadIdx.x; i < 64 * 32; i += 128)
        as[i / 32][i % 32] = a[i];
    for (unsigned i = threadIdx.x; i < 32 * 16; i += 128)
        bs[i / 16][i % 16] = b[i];
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (unsigned k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(fa, &as[16 * warp][k], 16);
        wmma::load_matrix_sync(fb, &bs[k][0], 24);
        wmma::mma_sync(fc, fa, fb, fc); //~ provenance
    }
    wmma::store_matrix_sync(d + warp * 256, fc, 16, wmma::mem_row_major);
}
