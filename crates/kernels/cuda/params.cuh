// What a launch is told: one struct by value, the same for every rung. The host's copy is src/params.rs.
#pragma once

// Rows of Q, K or V. Row r of head h of sequence b begins at codes + b·batch_stride + h·head_stride + r·row_stride, and its
// scale is scales[b·scale_batch + h·scale_head + (r >> scale_shift)].
struct Operand {
    const unsigned char *codes;
    const float *scales;
    unsigned long long batch_stride, head_stride, row_stride; // in elements, which are bytes
    unsigned scale_batch, scale_head;
    unsigned scale_shift, reserved;

    __device__ __forceinline__ const unsigned char *head(unsigned batch, unsigned head, unsigned first_row) const
    {
        return codes + batch * batch_stride + head * head_stride + first_row * row_stride;
    }
    __device__ __forceinline__ float scale(unsigned batch, unsigned head, unsigned row) const
    {
        return scales[batch * scale_batch + head * scale_head + (row >> scale_shift)];
    }
};

struct Params {
    Operand q, k, v;
    unsigned short *o; // f16, or bf16 with OUTPUT_BF16
    unsigned long long o_batch_stride, o_head_stride, o_row_stride; // in elements
    float *lse;                   // [batch][heads][lse_rows], or null
    const unsigned *query_starts; // with VARLEN: rows before each sequence, and all rows; batch strides are then 0
    const unsigned *key_starts;
    float *partial; // with SPLIT: [split][batch][heads][queries][D] sums, then as many [2] of maximum and sum; n9.cu has its own
    unsigned heads, group; // query heads; query heads for each key head
    unsigned queries, keys; // of every sequence; with VARLEN the most of any
    unsigned lse_rows, tiles_per_split;
    unsigned batches, splits; // n9: `splits` blocks after each other share `tiles_per_split` steps
    float factor; // softmax scale · log2(e): scores are in powers of two; with SOFTCAP softmax scale · 2 log2(e) / cap
    unsigned epoch; // n9: what this launch writes into the counters of its workspace; never 0, and another for the next launch
    unsigned window_left, window_right; // with WINDOW_LEFT, WINDOW_RIGHT: keys before and after a query's own place that it sees
    float cap, reserved; // with SOFTCAP: cap · log2(e)
    const float *sinks;  // with SINK: [heads]
    const float *slopes; // with ALIBI: [heads]
    // With PAGED: [batch][max_pages], the pages of each sequence. K and V are then pools, [page][2^page_shift rows][head][D], whose batch
    // stride is that of pages; so are scales finer than a head, [page][head][…].
    const unsigned *pages;
    unsigned max_pages, page_shift;
};
static_assert(sizeof(Params) == 320, "what the host writes");
