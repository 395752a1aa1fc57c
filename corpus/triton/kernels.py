"""Triton kernels of the corpus. `generate.py` compiles them; tests launch the committed PTX without Triton."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    """out[i] = x[i] + y[i]"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


@triton.jit
def softmax(x, out, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    """out[r] = softmax of x[r]; one program per row, BLOCK >= columns"""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * x_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, axis=0))
    value = value / tl.sum(value, axis=0)
    tl.store(out + row * out_stride + column, value, mask=inside)


@triton.jit
def layer_norm(x, gamma, beta, out, mean_out, rstd_out, stride, columns, epsilon, BLOCK: tl.constexpr):
    """out[r] = (x[r] - mean) * rstd * gamma + beta, with mean and rstd written too; any number of columns"""
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x + column, mask=column < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + column, mask=column < columns, other=0.0).to(tl.float32)
        difference = tl.where(column < columns, value - mean, 0.0)
        square += difference * difference
    rstd = 1.0 / tl.sqrt(tl.sum(square, axis=0) / columns + epsilon)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        value = tl.load(x + column, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(gamma + column, mask=inside).to(tl.float32)
        shift = tl.load(beta + column, mask=inside).to(tl.float32)
        tl.store(out + column, (value - mean) * rstd * scale + shift, mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, a_stride, b_stride, c_stride,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """c[m][n] = a[m][k] · b[k][n], row-major, accumulated in float (integers in int); programs are grouped by GROUP_M rows for the cache"""
    program = tl.program_id(0)
    programs_m = tl.cdiv(m, BLOCK_M)
    programs_n = tl.cdiv(n, BLOCK_N)
    in_group = GROUP_M * programs_n
    first_m = program // in_group * GROUP_M
    group_m = min(programs_m - first_m, GROUP_M)
    program_m = first_m + program % in_group % group_m
    program_n = program % in_group // group_m

    row = program_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = program_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a + (row % m)[:, None] * a_stride + depth[None, :]
    b_at = b + depth[:, None] * b_stride + (column % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if a.dtype.element_ty.is_int() else tl.float32)
    for start in range(0, k, BLOCK_K):
        tile_a = tl.load(a_at, mask=depth[None, :] < k - start, other=0.0)
        tile_b = tl.load(b_at, mask=depth[:, None] < k - start, other=0.0)
        total = tl.dot(tile_a, tile_b, total)
        a_at += BLOCK_K
        b_at += BLOCK_K * b_stride
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * c_stride + column[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention(q, k, v, out, scale, sequence,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """out = softmax(q · kᵀ * scale) · v for each head; q, k, v, out of [heads][sequence][D], contiguous.

    program_id(0): block of BLOCK_M query rows; program_id(1): head. `scale` is applied with log2(e), since the
    exponentials are powers of two. For eight-bit inputs the probabilities are converted to the type of v.
    """
    base = tl.program_id(1).to(tl.int64) * sequence * D
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    key = tl.arange(0, BLOCK_N)
    element = tl.arange(0, D)
    tile_q = tl.load(q + base + row[:, None] * D + element[None, :], mask=row[:, None] < sequence, other=0.0)
    scale *= 1.44269504

    top = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    result = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    end = sequence
    if CAUSAL:
        end = min(sequence, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        at = start + key
        tile_k = tl.load(k + base + at[None, :] * D + element[:, None], mask=at[None, :] < sequence, other=0.0)
        score = tl.dot(tile_q, tile_k) * scale
        visible = at[None, :] < sequence
        if CAUSAL:
            visible = visible & (at[None, :] <= row[:, None])
        score = tl.where(visible, score, -float("inf"))
        larger = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp2(score - larger[:, None])
        shrink = tl.exp2(top - larger)
        total = total * shrink + tl.sum(weight, axis=1)
        result = result * shrink[:, None]
        tile_v = tl.load(v + base + at[:, None] * D + element[None, :], mask=at[:, None] < sequence, other=0.0)
        result = tl.dot(weight.to(v.dtype.element_ty), tile_v, result)
        top = larger
    result = result / total[:, None]
    tl.store(out + base + row[:, None] * D + element[None, :], result.to(out.dtype.element_ty),
             mask=row[:, None] < sequence)


@triton.jit
def matmul_persistent(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                      SPECIALIZE: tl.constexpr):
    """c[m][n] = a[m][k] · b[k][n], contiguous, by tensor copies; each program computes every num_programs-th tile"""
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BLOCK_K, BLOCK_N])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BLOCK_M, BLOCK_N])
    across = tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BLOCK_M) * across, tl.num_programs(0), flatten=False,
                         warp_specialize=SPECIALIZE):
        row = tile // across * BLOCK_M
        column = tile % across * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, k, BLOCK_K):
            total = tl.dot(a_tiles.load([row, start]), b_tiles.load([start, column]), total)
        c_tiles.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def cross_entropy(logits, labels, losses, stride, classes, BLOCK: tl.constexpr):
    """losses[r] = log of the sum of exp(logits[r]), minus logits[r][labels[r]]; the gradient replaces logits[r]"""
    row = tl.program_id(0)
    logits += row * stride
    label = tl.load(labels + row)
    chosen = tl.load(logits + label).to(tl.float32)
    top = -float("inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(logits + at, mask=at < classes, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(value, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), axis=0)
        top = higher
    tl.store(losses + row, top + tl.log(total) - chosen)
    # The gradient overwrites the logits: the label's must have been read by all threads before.
    tl.debug_barrier()
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < classes
        value = tl.load(logits + at, mask=inside, other=-float("inf")).to(tl.float32)
        value = tl.exp(value - top) / total
        value = tl.where(at == label, value - 1.0, value)
        tl.store(logits + at, value, mask=inside)
