// What a block has to do: which rows of which head, against which keys.
//
// Grid: x = tiles of query rows, y = heads (with PACK_GQA: key heads), z = sequences (with SPLIT: times splits of the keys).
#pragma once
#include "params.cuh"

#ifndef HEAD_DIM // elements of a row
#define HEAD_DIM 64
#endif
#ifndef LSE // also write the log-sum-exp of each row
#define LSE 0
#endif
#ifndef OUTPUT_BF16 // O is bf16 instead of f16
#define OUTPUT_BF16 0
#endif
#ifndef CAUSAL // query i sees keys up to i + keys - queries
#define CAUSAL 0
#endif
#ifndef WINDOW_LEFT // query i sees keys from i + keys - queries - window_left on
#define WINDOW_LEFT 0
#endif
#ifndef WINDOW_RIGHT // query i sees keys up to i + keys - queries + window_right; not with CAUSAL, which is a window_right of 0
#define WINDOW_RIGHT 0
#endif
#ifndef SOFTCAP // scores become cap · tanh(score / cap)
#define SOFTCAP 0
#endif
#ifndef ALIBI // a slope for each head times the distance of key and query is subtracted from scores
#define ALIBI 0
#endif
#ifndef SINK // a logit for each head joins the sum of the softmax, without a value
#define SINK 0
#endif
#ifndef VARLEN // sequences of different lengths, one after the other
#define VARLEN 0
#endif
#ifndef PAGED // keys and values lie in pages; a table has those of each sequence
#define PAGED 0
#endif
#ifndef SPLIT // the keys of a row are spread over several blocks; `merge` puts their sums together
#define SPLIT 0
#endif
#ifndef PACK_GQA // the query heads that share a key head are rows of one tile
#define PACK_GQA 0
#endif

#ifndef GROUPED // query heads share key heads; where none do, nobody divides
#define GROUPED 1
#endif

struct Work {
    const Params &p;
    unsigned batch, split, head; // head: of the keys with PACK_GQA, else of the queries
    unsigned queries, keys;      // of this sequence
    unsigned first_row, end_row; // the tile's
    unsigned rows;               // all rows of the head

    // The grid's.
    __device__ __forceinline__ Work(const Params &p, unsigned tile_rows) : Work(p, tile_rows, blockIdx.x, blockIdx.y, blockIdx.z) {}
    // Of another order: a tile of rows, a head, a sequence and its part of the keys.
    __device__ __forceinline__ Work(const Params &p, unsigned tile_rows, unsigned tile, unsigned head, unsigned sequence)
        : p(p), head(head)
    {
        batch = SPLIT ? sequence / p.splits : sequence;
        split = SPLIT ? sequence % p.splits : 0;
        queries = VARLEN ? p.query_starts[batch + 1] - p.query_starts[batch] : p.queries;
        keys = VARLEN ? p.key_starts[batch + 1] - p.key_starts[batch] : p.keys;
        first_row = tile * tile_rows;
        rows = PACK_GQA ? queries * p.group : queries;
        end_row = min(first_row + tile_rows, rows);
    }

    // Row r of the tile's head, as a query and as a head of the queries.
    __device__ __forceinline__ unsigned query(unsigned row) const { return PACK_GQA ? row / p.group : row; }
    __device__ __forceinline__ unsigned query_head(unsigned row) const
    {
        return PACK_GQA ? head * p.group + row % p.group : head;
    }
    __device__ __forceinline__ unsigned key_head() const { return PACK_GQA || !GROUPED ? head : head / p.group; }

    // Where the keys end that a row sees.
    __device__ __forceinline__ unsigned visible(unsigned row) const
    {
        if (!CAUSAL && !WINDOW_RIGHT)
            return keys;
        unsigned seen = query(row) + 1 + keys + (WINDOW_RIGHT ? p.window_right : 0);
        return seen <= queries ? 0 : min(seen - queries, keys);
    }
    // Where they begin; 0 for a row that sees none.
    __device__ __forceinline__ unsigned first_visible(unsigned row) const
    {
        if (!WINDOW_LEFT)
            return 0;
        const unsigned place = query(row) + keys, before = queries + p.window_left;
        return place > before ? place - before : 0;
    }
    // Where the keys end that any row of the tile sees: no row sees more than the last.
    __device__ __forceinline__ unsigned end_key() const { return visible(end_row - 1); }

    // The codes of a query row and of the first key.
    __device__ __forceinline__ const unsigned char *q(unsigned row) const
    {
        return p.q.head(batch, query_head(row), query(row) + (VARLEN ? p.query_starts[batch] : 0));
    }
    __device__ __forceinline__ const unsigned char *k() const
    {
        return p.k.head(batch, key_head(), VARLEN ? p.key_starts[batch] : 0);
    }
    __device__ __forceinline__ const unsigned char *v() const
    {
        return p.v.head(batch, key_head(), VARLEN ? p.key_starts[batch] : 0);
    }
    // The page of a key. Keys of a tile share it.
    __device__ __forceinline__ unsigned page(unsigned key) const { return p.pages[batch * p.max_pages + (key >> p.page_shift)]; }
    __device__ __forceinline__ unsigned row_of_page(unsigned key) const { return key & ((1u << p.page_shift) - 1); }
    __device__ __forceinline__ float paged_scale(const Operand &operand, unsigned key) const
    {
        return operand.scale(page(key), key_head(), row_of_page(key));
    }
    __device__ __forceinline__ unsigned short *o(unsigned row) const
    {
        return p.o + batch * p.o_batch_stride + query_head(row) * p.o_head_stride +
               (query(row) + (VARLEN ? p.query_starts[batch] : 0)) * p.o_row_stride;
    }

    // What a row's scores are multiplied by, the scale of the keys aside.
    __device__ __forceinline__ float q_factor(unsigned row) const
    {
        return __fmul_rn(p.factor, q_scale(row));
    }
    __device__ __forceinline__ float q_scale(unsigned row) const
    {
        return p.q.scale(batch, query_head(row), query(row));
    }
    __device__ __forceinline__ float k_scale(unsigned key) const { return p.k.scale(batch, key_head(), key); }
    __device__ __forceinline__ float v_scale(unsigned key) const { return p.v.scale(batch, key_head(), key); }

    // The key that is at a row's own place; negative with more queries than keys.
    __device__ __forceinline__ int place(unsigned row) const { return static_cast<int>(query(row) + keys - queries); }
    // The slope of a row's head, in powers of two.
    __device__ __forceinline__ float slope(unsigned row) const { return __fmul_rn(p.slopes[query_head(row)], 1.44269504f); }
    // The sink of a row's head, in powers of two.
    __device__ __forceinline__ float sink(unsigned row) const { return __fmul_rn(p.sinks[query_head(row)], 1.44269504f); }

    // A row's place among those of the log-sum-exp.
    __device__ __forceinline__ unsigned long long lse_index(unsigned row) const
    {
        return (unsigned long long)(batch * p.heads + query_head(row)) * p.lse_rows + query(row);
    }
    // A row's place among the partial sums.
    __device__ __forceinline__ unsigned long long partial_index(unsigned row) const
    {
        return ((unsigned long long)(split * p.batches + batch) * p.heads + query_head(row)) * p.queries + query(row);
    }
};
