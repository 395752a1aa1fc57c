"""Triton kernels against numpy."""

import numpy as np
import pytest
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    value = tl.load(x + row * columns + i, mask=mask, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * columns + i, value / tl.sum(value, axis=0), mask=mask)


@triton.jit
def matmul(a, b, c, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, N, BLOCK):
        step = k + tl.arange(0, BLOCK)
        left = tl.load(a + row[:, None] * N + step[None, :])
        right = tl.load(b + step[:, None] * N + column[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def total(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i)))


@triton.jit
def total_without_atomic(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out, tl.load(out) + tl.sum(tl.load(x + i)))  # planted: blocks lose updates


@triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (64, 128)], key=["n"])
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("n", [1, 31, 128, 1000])
def test_add(n):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    out = np.zeros(n, np.float32)
    add[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize("columns", [5, 64, 100, 1000])
def test_softmax(columns):
    x = np.random.default_rng(0).standard_normal((4, columns)).astype(np.float32)
    out = np.zeros_like(x)
    softmax[(4,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    wanted = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, wanted / wanted.sum(axis=1, keepdims=True), rtol=1e-5)


def test_matmul_on_tensor_cores():
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    matmul[(2, 2)](a, b, c, 64, BLOCK=32)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)


def test_total():
    x, out = np.ones(512, np.float32), np.zeros(1, np.float32)
    total[(4,)](x, out, BLOCK=128)
    assert out[0] == 512


def test_total_without_atomic():
    x, out = np.ones(128, np.float32), np.zeros(1, np.float32)
    total_without_atomic[(2,)](x, out, BLOCK=64)
    assert out[0] > 0


def test_autotune():
    x, out = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    scale[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x, out, 300)
    np.testing.assert_array_equal(out, 2 * x)
