// a · aᵀ by wmma inside `if (threadIdx.x < 16)`: the wmma instructions are `.sync.aligned`, and half a warp executes
// them. The behavior is undefined; hardware gives wrong sums, or hangs.
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
    if (threadIdx.x < n) {
        wmma::load_matrix_sync(fa, a, 16); //~ lanes
        wmma::load_matrix_sync(fb, a, 16); //~ lanes
        wmma::mma_sync(fc, fa, fb, fc); //~ lanes
        wmma::store_matrix_sync(out, fc, 16, wmma::mem_row_major); //~ lanes
    }
}
