// Puts the sums of blocks together that shared the keys of a row: a warp for each row, a lane for each 32nd column.
#pragma once
#include "softmax.cuh"
#include "work.cuh"

// EX2 is 2^x, NORMAL(sum, scale) what a row's sums are multiplied by; SHIFT is the power of two that the sums carry.
template <auto EX2, auto NORMAL, int SHIFT, bool OWN_SCALES> __device__ __forceinline__ void merge_row(const Params &p)
{
    const unsigned query = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, lane = threadIdx.x;
    const unsigned first = VARLEN ? p.query_starts[batch] : 0;
    if (VARLEN && query >= p.query_starts[batch + 1] - first)
        return;
    const unsigned long long all = (unsigned long long)p.batches * p.heads * p.queries;
    const unsigned long long row = ((unsigned long long)batch * p.heads + head) * p.queries + query;
    const float2 *stats = reinterpret_cast<const float2 *>(p.partial + p.splits * all * HEAD_DIM);

    Softmax whole;
    for (unsigned split = 0; split < p.splits; split++)
        whole.maximum = fmaxf(whole.maximum, stats[split * all + row].x);
    float out[HEAD_DIM / 32] = {};
    for (unsigned split = 0; split < p.splits; split++) {
        float2 part = stats[split * all + row]; // maximum, sum
        float weight = EX2(__fsub_rn(part.x, whole.origin()));
        whole.sum = __fmaf_rn(part.y, weight, whole.sum);
#pragma unroll
        for (unsigned i = 0; i < HEAD_DIM / 32; i++)
            out[i] = __fmaf_rn(p.partial[(split * all + row) * HEAD_DIM + lane + 32 * i], weight, out[i]);
    }
    float factor = NORMAL(whole.sum, OWN_SCALES ? 1.0f : p.v.scale(batch, head / p.group, 0));
    unsigned short *o = p.o + batch * p.o_batch_stride + head * p.o_head_stride + (query + first) * p.o_row_stride;
#pragma unroll
    for (unsigned i = 0; i < HEAD_DIM / 32; i++) {
        const float x = __fmul_rn(out[i], factor);
        o[lane + 32 * i] = OUTPUT_BF16 ? cvt_bf16(x) : cvt_f16(x);
    }
    if (LSE && lane == 0)
        p.lse[(batch * p.heads + head) * p.lse_rows + query] = log_sum(whole.origin(), whole.sum, SHIFT);
}
