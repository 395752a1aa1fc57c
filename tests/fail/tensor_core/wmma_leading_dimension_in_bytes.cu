// d = a · b through tiles in shared memory: rows of A lie 32 elements apart there, but load_matrix_sync is given 64, their
// distance in bytes. It takes every second row of the tile, and then rows of the next one.
//@launch: kernel=product grid=1 block=32 shared=8192 arg=a:in:f16[16x64]=randn(seed=0) arg=b:in:f16[64x16]=randn(seed=1) arg=d:out:f32[16x16]
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void product(const half *a, const half *b, float *d)
{
    extern __shared__ __align__(32) half pool[];
    half *as = pool, *bs = pool + 2 * 16 * 32;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (unsigned tile = 0; tile < 2; tile++)
        for (unsigned i = threadIdx.x; i < 512; i += 32) {
            as[512 * tile + i] = a[i / 32 * 64 + 32 * tile + i % 32];
            bs[512 * tile + i] = b[512 * tile + i];
        }
    __syncwarp();
    for (unsigned k = 0; k < 64; k += 16) {
        wmma::load_matrix_sync(fa, as + k / 32 * 512 + k % 32, 64); //~ provenance
        wmma::load_matrix_sync(fb, bs + 16 * k, 16);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}
