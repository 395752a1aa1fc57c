// a · aᵀ by wmma, stored to shared memory, __syncwarp(), and read back by other lanes than those that stored.
// Corpus: t10
//@launch: kernel=gram grid=1 block=32 arg=a:in:f16[16x16]=randn(seed=0) arg=out:out:f32[16x16]
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void gram(const half *a, float *out)
{
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, a, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(tile, fc, 16, wmma::mem_row_major);
    __syncwarp();
    for (unsigned i = threadIdx.x; i < 256; i += 32)
        out[i] = tile[i];
}
