// Corrects the log-sum-exp of attention over smoothed keys: adds softmax scale · q·mean to each row, where `mean` was
// subtracted from K (quantize.cu) and q are the dequantized queries, as attention used them.
//
// A warp takes a row. Grid: x = groups of 8 queries, y = query heads, z = sequences.
#include "fragment.cuh"
#include "params.cuh"
#include "ptx.cuh"

#ifndef HEAD_DIM // elements of a row
#define HEAD_DIM 64
#endif
#ifndef FORMAT_E5M2
#define FORMAT_E5M2 0
#endif
#ifndef VARLEN // sequences of different lengths, one after the other
#define VARLEN 0
#endif

struct UnsmoothParams {
    Operand q;
    const float *mean;            // [batch][key head][HEAD_DIM]
    float *lse;                   // [batch][heads][lse_rows]
    const unsigned *query_starts; // with VARLEN
    unsigned heads, group;        // query heads; query heads for each key head
    unsigned queries, lse_rows;
    float softmax_scale;
    unsigned reserved;
};
static_assert(sizeof(UnsmoothParams) == 104, "what the host writes");
static_assert(HEAD_DIM % 16 == 0, "rows of whole chunks");

extern "C" __global__ void __launch_bounds__(256) unsmooth(const __grid_constant__ UnsmoothParams p)
{
    const unsigned lane = threadIdx.x % 32, query = blockIdx.x * 8 + threadIdx.x / 32, head = blockIdx.y, batch = blockIdx.z;
    const unsigned first = VARLEN ? p.query_starts[batch] : 0;
    if (query >= (VARLEN ? p.query_starts[batch + 1] - first : p.queries))
        return;
    const unsigned char *q = p.q.head(batch, head, first + query);
    const unsigned key_heads = p.heads / p.group;
    const float *mean = p.mean + (unsigned long long)(batch * key_heads + head / p.group) * HEAD_DIM;
    float sum = 0.0f;
    // Four neighboring elements of each 128 for this lane.
#pragma unroll
    for (unsigned d = lane * 4; d < HEAD_DIM; d += 128) {
        const unsigned codes = *reinterpret_cast<const unsigned *>(q + d);
        const float4 four = *reinterpret_cast<const float4 *>(mean + d);
        const float m[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned short two = static_cast<unsigned short>(codes >> i / 2 * 16);
            const unsigned pair = FORMAT_E5M2 ? cvt_f16x2_e5m2x2(two) : cvt_f16x2_e4m3x2(two);
            sum = __fmaf_rn(cvt_f32_f16(pair >> i % 2 * 16 & 0xffff), m[i], sum);
        }
    }
    sum = __fmul_rn(warp_sum(sum), p.q.scale(batch, head, query));
    float &lse = p.lse[(unsigned long long)(batch * p.heads + head) * p.lse_rows + query];
    if (lane == 0)
        lse = __fmaf_rn(sum, p.softmax_scale, lse);
}
