"""Triton kernels for Blackwell, each compared with NumPy. `test_blackwell.py` runs it: `blackwell_kernels.py DEVICE NAME`.

On compute capability 10.0 Triton multiplies with `tcgen05.mma` in tensor memory, on 12.0 with `mma`. A result is wrong if it differs
from the exact product by more than the rounding of the tensor cores allows (`rounding`).
"""

import sys
import time

import numpy as np

import warpproof

warpproof.activate(sys.argv[1])
import warpproof.triton  # noqa: E402
from warpproof.triton import HostArray, descriptor  # noqa: E402

warpproof.triton.install()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

RNG = np.random.default_rng(26)


def typed(array, name):
    """The codes of an array as elements of a type that NumPy lacks."""
    result = HostArray(array)
    size, result.dtype = result.dtype.itemsize, warpproof.triton.ElementType(name)
    result.dtype.itemsize, result.dtype.is_floating_point = size, True
    return result


def described(array, block, name=None):
    result = descriptor(array, block)
    if name is not None:
        result.base = typed(array, name)
    return result


def small(exponent_bits, fraction_bits, bias):
    """The values of all codes of a small floating-point format; those of Inf and NaN are not used."""
    codes = np.arange(1 << (1 + exponent_bits + fraction_bits))
    fraction = codes & ((1 << fraction_bits) - 1)
    exponent = codes >> fraction_bits & ((1 << exponent_bits) - 1)
    significand = np.where(exponent > 0, 1 << fraction_bits, 0) + fraction
    value = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - fraction_bits)
    return np.where(codes >> (exponent_bits + fraction_bits), -value, value)


#: Values of the codes, and the largest code of a finite positive number.
FORMATS = {
    "e4m3": (small(4, 3, 7), 0x7E, "float8_e4m3fn"),
    "e5m2": (small(5, 2, 15), 0x7B, "float8_e5m2"),
    "e2m1": (small(2, 1, 1), 7, None),
}


def codes(name, *shape):
    """Random codes of finite numbers, and their values."""
    values, largest, _ = FORMATS[name]
    sign = len(values) // 2
    found = (RNG.integers(0, largest + 1, shape) | sign * RNG.integers(0, 2, shape)).astype(np.uint8)
    return found, values[found]


def rounding(a, b, each, fraction=25):
    """The largest difference of a product of the tensor cores from the exact one.

    They add `each` products and the sum so far: each of these terms is cut to a multiple of 2^(e - fraction), where 2^e is at most the
    largest of them, and the sum is rounded toward zero to 24 bits. No term and no sum is larger than the sum of all magnitudes.
    """
    steps = -(-a.shape[1] // each)
    return steps * ((each + 1) * 2.0**-fraction + 2.0**-23) * (np.abs(a) @ np.abs(b))


def near(found, wanted, bound, half=False):
    if half:
        # The result is rounded to 11 bits; the smallest numbers are multiples of 2^-24.
        bound = bound + 2.0**-11 * (np.abs(wanted) + bound) + 2.0**-25
    error = np.abs(found.astype(np.float64) - wanted)
    share = float((error / bound).max())
    assert np.isfinite(share) and share <= 1, f"{share} of the bound; {(error > bound).sum()} of {error.size} are wrong"
    print(f"error {error.max():.3g}, {share:.3f} of the bound")


def checked(launch):
    start = time.monotonic()
    with warpproof.check() as report:
        compiled = launch()
    print(f"{time.monotonic() - start:.1f} s")
    assert report.findings == [], "\n".join(map(str, report.findings))
    return compiled


def uses(compiled, *words):
    """On 10.0 the kernel must use these instructions: otherwise the test shows nothing of them."""
    if triton.runtime.driver.active.get_current_target().arch // 10 == 10:
        for word in words:
            assert word in compiled.asm["ptx"], f"the kernel has no {word}"


@triton.jit
def product(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inside = start + along < k
        x = tl.load(a + rows[:, None] * k + start + along[None, :], (rows[:, None] < m) & inside[None, :], other=0.0)
        y = tl.load(b + (start + along[:, None]) * n + columns[None, :], inside[:, None] & (columns[None, :] < n), other=0.0)
        total = tl.dot(x, y, total)
    outside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), outside)


def multiply(a, b, values, each, blocks, word, more=0.0, **options):
    (m, k), n = values[0].shape, values[1].shape[1]
    c = np.zeros((m, n), np.float32)
    grid = (-(-m // blocks[0]), -(-n // blocks[1]))
    compiled = checked(lambda: product[grid](a, b, c, m, n, k, *blocks, num_warps=4, **options))
    uses(compiled, word)
    wanted = values[0] @ values[1]
    near(c, wanted, rounding(*values, each) + more * (np.abs(values[0]) @ np.abs(values[1])))


def f16(blocks=(128, 64, 64)):
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((200, 144), (144, 96)))
    multiply(a, b, (a.astype(np.float64), b.astype(np.float64)), 16, blocks, "tcgen05.mma.cta_group::1.kind::f16")


def f16_of_64_rows():
    f16((64, 32, 32))


def f16_of_256_columns():
    f16((128, 256, 32))


def bf16():
    a, b = ((RNG.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            for shape in ((128, 128), (128, 64)))
    values = [(x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in (a, b)]
    multiply(typed(a, "bfloat16"), typed(b, "bfloat16"), values, 16, (128, 64, 64), "tcgen05.mma.cta_group::1.kind::f16")


def tf32():
    a, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((128, 64), (64, 64)))
    # Operands are cut to 11 bits.
    values = (a.astype(np.float64), b.astype(np.float64))
    multiply(a, b, values, 8, (128, 64, 32), "tcgen05.mma.cta_group::1.kind::tf32", more=2.0**-9)


def fp8(name="e4m3", blocks=(128, 64, 64)):
    (a, x), (b, y) = codes(name, 200, 160), codes(name, 160, 96)
    element = FORMATS[name][2]
    multiply(typed(a, element), typed(b, element), (x, y), 32, blocks, "tcgen05.mma.cta_group::1.kind::f8f6f4")


def fp8_e5m2():
    fp8("e5m2")


@triton.jit
def product_of_columns(a, b, c, k, KIND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A is stored by columns, B by rows: both operands are MN-major."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=KIND)
    for start in range(0, k, BLOCK_K):
        total = tl.dot(a.load([start, row]).T, b.load([start, column]), total, out_dtype=KIND)
    c.store([row, column], total)


def by_columns(name="f16", blocks=(128, 64, 64), kind=tl.float32):
    m, n, k = 256, 128, 128
    if name == "f16":
        a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((k, m), (k, n)))
        values, element, each = (a.astype(np.float64), b.astype(np.float64)), None, 16
    elif name == "int8":
        a, b = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((k, m), (k, n)))
        values, element, each = (a.astype(np.float64), b.astype(np.float64)), None, 32
    else:
        (a, x), (b, y) = codes(name, k, m), codes(name, k, n)
        values, element, each = (x, y), FORMATS[name][2], 32
    c = np.zeros((m, n), np.int32 if name == "int8" else np.float16 if kind == tl.float16 else np.float32)
    tiles = [described(one, size, ty) for one, size, ty in (
        (a, [blocks[2], blocks[0]], element), (b, [blocks[2], blocks[1]], element), (c, list(blocks[:2]), None))]
    grid = (m // blocks[0], n // blocks[1])
    compiled = checked(lambda: product_of_columns[grid](*tiles, k, kind, *blocks, num_warps=4))
    wanted = values[0].T @ values[1]
    if name == "int8":
        assert (c == wanted).all()
        return
    uses(compiled, "tcgen05.mma")
    if kind == tl.float16:
        # Each of the sums is rounded to f16.
        most = np.abs(values[0]).T @ np.abs(values[1])
        near(c, wanted, rounding(values[0].T, values[1], each) + k / each * (2.0**-11 * most + 2.0**-25))
    else:
        near(c, wanted, rounding(values[0].T, values[1], each))


def f16_by_columns():
    by_columns()


def f16_by_narrow_columns():
    by_columns(blocks=(64, 32, 32))


def fp8_by_columns():
    by_columns("e4m3", (128, 64, 64))


def int8_by_columns():
    by_columns("int8", (128, 64, 64), tl.int32)


def f16_of_short_rows():
    """Rows of 32 bytes in shared memory."""
    persistently(blocks=(128, 64, 16))


def f16_sums():
    by_columns(kind=tl.float16)


def packed(codes):
    """Two codes of 4 bits a byte, the first in the lower half."""
    return codes[..., ::2] | codes[..., 1::2] << 4


@triton.jit
def scaled_product(a, a_scales, b, b_scales, c, m, n, k, A: tl.constexpr, B: tl.constexpr, VECTOR: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a_each: tl.constexpr = 2 if A == "e2m1" else 1
    b_each: tl.constexpr = 2 if B == "e2m1" else 1
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_along, b_along = tl.arange(0, BLOCK_K // a_each), tl.arange(0, BLOCK_K // b_each)
    groups = tl.arange(0, BLOCK_K // VECTOR)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        x = tl.load(a + rows[:, None] * (k // a_each) + start // a_each + a_along[None, :])
        y = tl.load(b + columns[None, :] * (k // b_each) + start // b_each + b_along[:, None])
        x_scales = tl.load(a_scales + rows[:, None] * (k // VECTOR) + start // VECTOR + groups[None, :])
        y_scales = tl.load(b_scales + columns[:, None] * (k // VECTOR) + start // VECTOR + groups[None, :])
        total = tl.dot_scaled(x, x_scales, A, y, y_scales, B, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def scaled_product_of_tiles(a, a_scales, b, b_scales, c, k, A: tl.constexpr, B: tl.constexpr, VECTOR: tl.constexpr,
                            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Scales are stored as the tensor core reads them: 32 rows of 16 bytes for 128 rows of A with 4 scales each."""
    a_each: tl.constexpr = 2 if A == "e2m1" else 1
    b_each: tl.constexpr = 2 if B == "e2m1" else 1
    many_m: tl.constexpr = BLOCK_M // 128
    many_n: tl.constexpr = BLOCK_N // 128
    many_k: tl.constexpr = BLOCK_K // VECTOR // 4
    i, j = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, k // BLOCK_K):
        x = a.load([i * BLOCK_M, step * (BLOCK_K // a_each)])
        y = b.load([j * BLOCK_N, step * (BLOCK_K // b_each)])
        x_scales = a_scales.load([0, i * many_m, step * many_k, 0, 0])
        y_scales = b_scales.load([0, j * many_n, step * many_k, 0, 0])
        x_scales = x_scales.reshape(many_m, many_k, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BLOCK_M, BLOCK_K // VECTOR)
        y_scales = y_scales.reshape(many_n, many_k, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BLOCK_N, BLOCK_K // VECTOR)
        total = tl.dot_scaled(x, x_scales, A, y.T, y_scales, B, total)
    c.store([i * BLOCK_M, j * BLOCK_N], total)


def in_tiles(scales):
    """Scales of rows in the order of `scaled_product_of_tiles`."""
    rows, many = scales.shape
    tiles = scales.reshape(rows // 128, 4, 32, many // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(tiles.reshape(1, rows // 128, many // 4, 2, 256))


def scaled(a_name, b_name, vector=32, tiles=False, m=256, n=128, k=256, blocks=(128, 128, 128)):
    (a, x), (b, y) = codes(a_name, m, k), codes(b_name, n, k)
    if vector == 16:
        # Scales of four exponent bits and three fraction bits.
        scales = [RNG.integers(1, 0x7F, (rows, k // vector)).astype(np.uint8) for rows in (m, n)]
        factors = [FORMATS["e4m3"][0][one] for one in scales]
        element = "float8_e4m3fn"
    else:
        scales = [RNG.integers(120, 135, (rows, k // vector)).astype(np.uint8) for rows in (m, n)]
        factors = [2.0 ** (one.astype(np.float64) - 127) for one in scales]
        element = None
    x, y = (values * np.repeat(factor, vector, axis=1) for values, factor in ((x, factors[0]), (y, factors[1])))
    a, b = (packed(one) if name == "e2m1" else one for one, name in ((a, a_name), (b, b_name)))
    types = [FORMATS[name][2] for name in (a_name, b_name)]
    c = np.zeros((m, n), np.float32)
    grid = (m // blocks[0], n // blocks[1])
    options = dict(A=a_name, B=b_name, VECTOR=vector, BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2])
    if tiles:
        many = (blocks[0] // 128, blocks[1] // 128, blocks[2] // vector // 4)
        sides = [described(one, [block, blocks[2] // (2 if name == "e2m1" else 1)], kind)
                 for one, block, name, kind in ((a, blocks[0], a_name, types[0]), (b, blocks[1], b_name, types[1]))]
        factors = [described(in_tiles(one), [1, rows, many[2], 2, 256], element) for one, rows in zip(scales, many)]
        result = described(c, [blocks[0], blocks[1]])
        compiled = checked(lambda: scaled_product_of_tiles[grid](
            sides[0], factors[0], sides[1], factors[1], result, k, num_warps=4, **options))
        uses(compiled, "tcgen05.cp")
    else:
        sides = [one if kind is None else typed(one, kind) for one, kind in zip((a, b), types)]
        factors = [one if element is None else typed(one, element) for one in scales]
        compiled = checked(lambda: scaled_product[grid](
            sides[0], factors[0], sides[1], factors[1], c, m, n, k, num_warps=4, **options))
    kind = "mxf4" if (a_name, b_name) == ("e2m1", "e2m1") else "mxf8f6f4"
    uses(compiled, f"kind::{kind}")
    # The tensor cores may add fewer products at a time, with fewer bits, if the format has no instruction of its own.
    near(c, x @ y.T, rounding(x, y.T, 16))


def mxfp8():
    scaled("e4m3", "e5m2")


def mxfp4():
    scaled("e2m1", "e2m1")


def mxfp4_of_256_columns():
    scaled("e2m1", "e2m1", n=256, blocks=(128, 256, 128))


def nvfp4():
    scaled("e2m1", "e2m1", vector=16)


def mxfp8_by_mxfp4():
    scaled("e4m3", "e2m1")


def mxfp8_in_tiles():
    scaled("e4m3", "e4m3", tiles=True)


def mxfp4_in_tiles():
    scaled("e2m1", "e2m1", tiles=True, k=512, blocks=(128, 128, 256))


def nvfp4_in_tiles():
    scaled("e2m1", "e2m1", vector=16, tiles=True, k=512, blocks=(128, 128, 256))


def mxfp8_by_mxfp4_in_tiles():
    scaled("e4m3", "e2m1", tiles=True)


@triton.jit
def attention(q, k, v, out, length, scale, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              CAUSAL: tl.constexpr, SPECIALIZE: tl.constexpr):
    """One head of a flash attention; `scale` includes the logarithm of e in base 2."""
    row = tl.program_id(0) * BLOCK_M
    rows = row + tl.arange(0, BLOCK_M)
    queries = q.load([row, 0])
    most = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), tl.float32)
    end = tl.minimum(row + BLOCK_M, length) if CAUSAL else length
    for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):
        scores = tl.dot(queries, k.load([start, 0]).T) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= start + tl.arange(0, BLOCK_N)[None, :], scores, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - now[:, None])
        fade = tl.exp2(most - now)
        weight = weight * fade + tl.sum(p, 1)
        total = total * fade[:, None]
        total = tl.dot(p.to(tl.float16), v.load([start, 0]), total)
        most = now
    out.store([row, 0], (total / weight[:, None]).to(tl.float16))


def flash(causal=False, specialize=False, head=64, length=256, rows=128, columns=64, **options):
    q, k, v = (RNG.standard_normal((length, head)).astype(np.float16) for _ in range(3))
    out = np.zeros((length, head), np.float16)
    scale = np.float32(np.log2(np.e) / np.sqrt(head))
    tiles = [described(one, [size, head]) for one, size in ((q, rows), (k, columns), (v, columns), (out, rows))]
    compiled = checked(lambda: attention[(length // rows,)](
        *tiles, length, float(scale), head, rows, columns, causal, specialize, **options))
    uses(compiled, "tcgen05.mma.cta_group::1.kind::f16", *(["setmaxnreg"] if specialize else []))
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    scores = q @ k.T * float(scale)
    if causal:
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf)
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    # Of a score: the product, its scale and the subtraction of the largest. Of a weight: that by the exponential function, the
    # function itself (2^-22), sums and corrections in f32 for each block, and the rounding to f16.
    size = np.abs(scores[np.isfinite(scores)]).max()
    score = float((rounding(q, k.T, 16) * scale).max()) + 4 * 2.0**-24 * size
    weight = 2 * np.log(2) * 2 * score + 2.0**-22 + (length / columns + columns) * 2.0**-23 + 2.0**-11
    bound = 2 * weight * (weights @ np.abs(v)) + rounding(weights, np.abs(v), 16)
    near(out, weights @ v, bound, half=True)


def attention_forward():
    flash()


def causal_attention():
    flash(causal=True, head=128)


def specialized_attention():
    flash(specialize=True, num_warps=4)


@triton.jit
def persistent(a, b, c, m, n, k, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
               FLATTEN: tl.constexpr, SPECIALIZE: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BLOCK_N, BLOCK_K])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BLOCK_M, BLOCK_N])
    down, right = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), down * right, PROGRAMS, flatten=FLATTEN, warp_specialize=SPECIALIZE):
        row, column = tile % down * BLOCK_M, tile // down * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(k, BLOCK_K)):
            x = a_tiles.load([row, step * BLOCK_K])
            y = b_tiles.load([column, step * BLOCK_K])
            total = tl.dot(x, y.T, total)
        c_tiles.store([row, column], total.to(tl.float16))


def persistently(flatten=True, specialize=False, blocks=(128, 64, 64), **options):
    m, n, k = 384, 160, 192
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float16)
    compiled = checked(lambda: persistent[(2,)](
        a, b, c, m, n, k, 2, *blocks, FLATTEN=flatten, SPECIALIZE=specialize, num_warps=4, **options))
    uses(compiled, "tcgen05.mma", "cp.async.bulk.tensor", *(["setmaxnreg"] if specialize else []))
    a, b = a.astype(np.float64), b.astype(np.float64)
    near(c, a @ b.T, rounding(a, b.T, 16), half=True)


def persistent_product():
    persistently()


def specialized_product():
    persistently(specialize=True)


def product_in_a_cluster():
    persistently(num_ctas=2)


if __name__ == "__main__":
    globals()[sys.argv[2]]()
