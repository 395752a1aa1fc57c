"""numba kernels against numpy."""

import math

import numpy as np
import pytest
from numba import cuda, float32


@cuda.jit(lineinfo=True)
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit(lineinfo=True)
def block_sum(x, out):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = tile[0]


@cuda.jit(lineinfo=True)
def block_sum_without_barrier(x, out):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    step = 64
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]  # planted: no barrier after the store above
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = tile[0]


@cuda.jit(lineinfo=True)
def histogram(values, bins):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i], 1)


@cuda.jit(lineinfo=True)
def transpose(x, out):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[j, i] = x[i, j]


@pytest.mark.parametrize("n", [1, 100, 1000])
def test_saxpy(n):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    out = np.zeros(n, np.float32)
    saxpy[math.ceil(n / 64), 64](np.float32(2), x, y, out)
    np.testing.assert_array_equal(out, 2 * x + y)


def test_block_sum():
    x, out = np.ones(256, np.float32), np.zeros(2, np.float32)
    block_sum[2, 128](x, out)
    np.testing.assert_array_equal(out, [128, 128])


def test_block_sum_without_barrier():
    x, out = np.ones(256, np.float32), np.zeros(2, np.float32)
    block_sum_without_barrier[2, 128](x, out)


def test_histogram():
    values = np.arange(500, dtype=np.int32) % 7
    bins = np.zeros(7, np.int32)
    histogram[8, 64](values, bins)
    np.testing.assert_array_equal(bins, np.bincount(values))


@pytest.mark.parametrize("shape", [(3, 5), (16, 16)])
def test_transpose(shape):
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    out = np.zeros(shape[::-1], np.float32)
    transpose[(2, 2), (8, 8)](x, out)
    np.testing.assert_array_equal(out, x.T)
