"""Triton kernels for the shapes of inference servers. `generate.py` compiles them; the committed PTX runs without Triton."""

import triton
import triton.language as tl


@triton.jit
def attend(q, k, v, out, scale, queries, keys, group,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    """out = softmax(q · kᵀ * scale) · v; q and out of [head][query][D], k and v of [head / group][key][D], contiguous.

    program_id(0): block of BLOCK_M queries; program_id(1): head, of all sequences. Online softmax, as in FlashAttention-2.
    """
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    key = tl.arange(0, BLOCK_N)
    element = tl.arange(0, D)
    head = tl.program_id(1)
    of_queries = head.to(tl.int64) * queries * D
    of_keys = (head // group).to(tl.int64) * keys * D
    tile_q = tl.load(q + of_queries + row[:, None] * D + element[None, :], mask=row[:, None] < queries, other=0.0)
    scale *= 1.44269504
    top = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    result = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    for start in range(0, keys, BLOCK_N):
        at = start + key
        tile_k = tl.load(k + of_keys + at[None, :] * D + element[:, None], mask=at[None, :] < keys, other=0.0)
        score = tl.dot(tile_q, tile_k) * scale
        score = tl.where(at[None, :] < keys, score, -float("inf"))
        larger = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp2(score - larger[:, None])
        shrink = tl.exp2(top - larger)
        total = total * shrink + tl.sum(weight, axis=1)
        result = result * shrink[:, None]
        tile_v = tl.load(v + of_keys + at[:, None] * D + element[None, :], mask=at[:, None] < keys, other=0.0)
        result = tl.dot(weight.to(v.dtype.element_ty), tile_v, result)
        top = larger
    result = result / total[:, None]
    tl.store(out + of_queries + row[:, None] * D + element[None, :], result.to(out.dtype.element_ty),
             mask=row[:, None] < queries)


@triton.jit
def decode(q, k, v, partial, sums, scale, keys, group, per_split,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    """The part of `per_split` keys of one query for each head; the heads of a group are the rows of one tile.

    program_id(0): key head, of all sequences; program_id(1): split. `partial` of [split][head][D] has sums over keys, not yet
    divided, `sums` of [split][head][2] the largest score and the sum of weights.
    """
    head_k = tl.program_id(0)
    split = tl.program_id(1)
    row = tl.arange(0, BLOCK_M)
    key = tl.arange(0, BLOCK_N)
    element = tl.arange(0, D)
    inside = row[:, None] < group
    first = head_k * group
    of_keys = head_k.to(tl.int64) * keys * D
    tile_q = tl.load(q + (first + row[:, None]) * D + element[None, :], mask=inside, other=0.0)
    scale *= 1.44269504
    top = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    result = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    begin = split * per_split
    end = min(keys, begin + per_split)
    for start in range(begin, end, BLOCK_N):
        at = start + key
        tile_k = tl.load(k + of_keys + at[None, :] * D + element[:, None], mask=at[None, :] < end, other=0.0)
        score = tl.dot(tile_q, tile_k) * scale
        score = tl.where(at[None, :] < end, score, -float("inf"))
        larger = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp2(score - larger[:, None])
        shrink = tl.exp2(top - larger)
        total = total * shrink + tl.sum(weight, axis=1)
        result = result * shrink[:, None]
        tile_v = tl.load(v + of_keys + at[:, None] * D + element[None, :], mask=at[:, None] < end, other=0.0)
        result = tl.dot(weight.to(v.dtype.element_ty), tile_v, result)
        top = larger
    place = split * tl.num_programs(0) * group + first + row
    tl.store(partial + place[:, None] * D + element[None, :], result, mask=inside)
    tl.store(sums + place * 2, top, mask=row < group)
    tl.store(sums + place * 2 + 1, total, mask=row < group)


@triton.jit
def combine(partial, sums, out, splits, SPLITS: tl.constexpr, D: tl.constexpr):
    """out = the parts of `decode`, weighted and divided. program_id(0): head, of all sequences."""
    head = tl.program_id(0)
    heads = tl.num_programs(0)
    split = tl.arange(0, SPLITS)
    element = tl.arange(0, D)
    inside = split < splits
    place = split * heads + head
    top = tl.load(sums + place * 2, mask=inside, other=-float("inf"))
    total = tl.load(sums + place * 2 + 1, mask=inside, other=0.0)
    weight = tl.exp2(top - tl.max(top, axis=0))
    part = tl.load(partial + place[:, None] * D + element[None, :], mask=inside[:, None], other=0.0)
    result = tl.sum(part * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    tl.store(out + head * D + element, result.to(out.dtype.element_ty))
