// a · aᵀ by wmma, executed by the whole warp; the first half of it then reads the result.
//@launch: kernel=gram grid=1 block=32 arg=a:in:f16[16x16]=randn(seed=0) arg=out:inout:f32[16x16]=zeros arg=n:u32=16
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void gram(const half *a, float *out, unsigned n)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, a, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(out, fc, 16, wmma::mem_row_major);
    __syncwarp();
    if (threadIdx.x < n)
        out[threadIdx.x] *= 0.5f;
}
