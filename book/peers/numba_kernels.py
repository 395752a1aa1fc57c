"""The same defects for numba's CUDA simulator: NUMBA_ENABLE_CUDASIM=1 numba_kernels.py NAME."""

import sys

import numpy
from numba import cuda, float32


@cuda.jit
def missing_barrier(source, out):
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    tile[t] = source[t]
    out[t] = tile[255 - t]


@cuda.jit
def missing_warp_barrier(source, out):
    tile = cuda.shared.array(32, float32)
    lane = cuda.threadIdx.x
    tile[lane] = source[lane]
    out[lane] = tile[lane ^ 1]


@cuda.jit
def blocks_race(total):
    if cuda.threadIdx.x == 0:
        total[0] = total[0] + 1


@cuda.jit
def out_of_bounds(source, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = source[i]


@cuda.jit
def neighbor(source, out):
    x = cuda.shared.array(32, float32)
    y = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < 32:
        x[t] = source[t]
        y[t] = source[t + 32]
    cuda.syncthreads()
    out[t] = x[t] + y[t % 32]


@cuda.jit
def uninitialized(source, out, n):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = source[t]
    cuda.syncthreads()
    out[t] = tile[127 - t]


@cuda.jit
def divergent_barrier(source, out, n):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    value = source[t]
    tile[t] = value
    if t < n:
        cuda.syncthreads()
        value = tile[n - 1 - t]
    out[t] = value


def numbers(count):
    return numpy.arange(count, dtype=numpy.float32)


name = sys.argv[1]
out = numpy.zeros(1000, numpy.float32)
try:
    if name == "missing_barrier":
        missing_barrier[1, 256](numbers(256), out)
        print("ends;", int((out[:256] != numbers(256)[::-1]).sum()), "of 256 elements are wrong")
    elif name == "missing_warp_barrier":
        missing_warp_barrier[1, 32](numbers(32), out)
        swapped = numbers(32).reshape(16, 2)[:, ::-1].ravel()
        print("ends;", int((out[:32] != swapped).sum()), "of 32 elements are wrong")
    elif name == "blocks_race":
        blocks_race[4, 32](out)
        print("ends; the count of 4 blocks is", int(out[0]))
    elif name == "out_of_bounds":
        out_of_bounds[4, 256](numbers(1000), out)
        print("ends")
    elif name == "neighbor":
        neighbor[1, 64](numbers(64), out)
        print("ends; element 32 is", out[32])
    elif name == "uninitialized":
        uninitialized[1, 128](numbers(100), out, 100)
        print("ends; element 0 is", out[0])
    elif name == "divergent_barrier":
        divergent_barrier[1, 64](numbers(64), out, 40)
        print("ends;", int((out[:40] != numbers(40)[::-1]).sum()), "of 40 elements are wrong")
except IndexError as error:
    print("IndexError:", error)
    sys.exit(1)
