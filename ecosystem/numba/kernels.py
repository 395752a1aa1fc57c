"""Kernels written with numba-cuda, each compared with numpy.

Numba makes PTX with libNVVM and hands it to the driver's linker: nvJitLink is not installed. Inputs come from seeds, and what is
not exact has a limit that follows from the type and the number of roundings.
"""
import math
import sys
import time
import warnings

import numpy as np
from numba import cuda, float32, int32, vectorize
from numba.cuda.core.errors import NumbaPerformanceWarning

# Grids are small on purpose, and this tests the driver's linker.
warnings.simplefilter("ignore", NumbaPerformanceWarning)
warnings.filterwarnings("ignore", message=".*nvjitlink is not available.*")

KERNELS = []
EPS = np.finfo(np.float32).eps


def kernel(function):
    """A case: a function of a random generator that raises an AssertionError."""
    KERNELS.append(function)
    return function


def close(got, want, roundings, eps=EPS):
    """Results that differ by at most this number of roundings."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    limit = roundings * eps * max(1.0, np.abs(want).max())
    error = np.abs(got - want).max()
    assert error <= limit, f"error {error:.3g}, at most {limit:.3g}"


def same(got, want):
    """Equal results."""
    np.testing.assert_array_equal(got, want)


@kernel
def vector_add(rng):
    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    x, y = rng.normal(size=(2, 1000)).astype(np.float32)
    out = np.zeros_like(x)
    add[8, 128](x, y, out)
    same(out, x + y)


@kernel
def axpy_in_double(rng):
    @cuda.jit(fastmath=False)
    def axpy(a, x, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = a * x[i] + y[i]

    x, y = rng.normal(size=(2, 300))
    got = y.copy()
    axpy[3, 128](1.5, x, got)
    close(got, 1.5 * x + y, 2, np.finfo(np.float64).eps)


@kernel
def grid_stride(rng):
    @cuda.jit
    def square(x):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] *= x[i]

    x = rng.normal(size=5000).astype(np.float32)
    got = cuda.to_device(x)
    square[2, 64](got)
    same(got.copy_to_host(), x * x)


@kernel
def matmul(rng):
    @cuda.jit
    def product(a, b, out):
        row, column = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            total = float32(0)
            for k in range(a.shape[1]):
                total += a[row, k] * b[k, column]
            out[row, column] = total

    a, b = rng.normal(size=(20, 37)).astype(np.float32), rng.normal(size=(37, 25)).astype(np.float32)
    out = np.zeros((20, 25), np.float32)
    product[(2, 2), (16, 16)](a, b, out)
    close(out, a.astype(np.float64) @ b, 74)


@kernel
def matmul_tiled(rng):
    tile = 16

    @cuda.jit
    def product(a, b, out):
        left = cuda.shared.array((tile, tile), float32)
        right = cuda.shared.array((tile, tile), float32)
        column, row = cuda.grid(2)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0)
        for step in range(a.shape[1] // tile):
            left[y, x] = a[row, step * tile + x]
            right[y, x] = b[step * tile + y, column]
            cuda.syncthreads()
            for k in range(tile):
                total += left[y, k] * right[k, x]
            cuda.syncthreads()
        out[row, column] = total

    a, b = rng.normal(size=(2, 32, 32)).astype(np.float32)
    out = np.zeros_like(a)
    product[(2, 2), (tile, tile)](a, b, out)
    close(out, a.astype(np.float64) @ b, 64)


@kernel
def reduction_in_shared_memory(rng):
    @cuda.jit
    def total(x, out):
        shared = cuda.shared.array(256, float32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        shared[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        step = 128
        while step > 0:
            if t < step:
                shared[t] += shared[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            out[cuda.blockIdx.x] = shared[0]

    x = rng.uniform(size=1000).astype(np.float32)
    out = np.zeros(4, np.float32)
    total[4, 256](x, out)
    close(out.sum(dtype=np.float64), x.sum(dtype=np.float64), 16)


@kernel
def reduction_by_shuffle(rng):
    @cuda.jit
    def total(x, out):
        value = x[cuda.grid(1)]
        for distance in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, distance)
        if cuda.laneid == 0:
            out[cuda.grid(1) // 32] = value

    x = rng.integers(0, 1000, 128).astype(np.int32)
    out = np.zeros(4, np.int32)
    total[2, 64](x, out)
    same(out, x.reshape(4, 32).sum(axis=1))


@kernel
def votes(rng):
    @cuda.jit
    def vote(x, ballot, any_, all_):
        i = cuda.grid(1)
        ballot[i] = cuda.ballot_sync(0xFFFFFFFF, x[i] > 0)
        any_[i] = cuda.any_sync(0xFFFFFFFF, x[i] > 2)
        all_[i] = cuda.all_sync(0xFFFFFFFF, x[i] > -3)

    x = rng.normal(size=64).astype(np.float32)
    ballot, any_, all_ = np.zeros(64, np.uint32), np.zeros(64, np.int32), np.zeros(64, np.int32)
    vote[1, 64](x, ballot, any_, all_)
    warps = x.reshape(2, 32)
    masks = ((warps > 0) * (np.uint64(1) << np.arange(32, dtype=np.uint64))).sum(axis=1).astype(np.uint32)
    same(ballot, np.repeat(masks, 32))
    same(any_ != 0, np.repeat((warps > 2).any(axis=1), 32))
    same(all_ != 0, np.repeat((warps > -3).all(axis=1), 32))


@kernel
def histogram(rng):
    @cuda.jit
    def count(x, bins):
        shared = cuda.shared.array(32, int32)
        t = cuda.threadIdx.x
        if t < 32:
            shared[t] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            cuda.atomic.add(shared, x[i], 1)
        cuda.syncthreads()
        if t < 32:
            cuda.atomic.add(bins, t, shared[t])

    x = rng.integers(0, 32, 3000).astype(np.int32)
    bins = np.zeros(32, np.int32)
    count[4, 64](x, bins)
    same(bins, np.bincount(x, minlength=32))


@kernel
def atomic_sum_of_floats(rng):
    @cuda.jit
    def total(x, out):
        cuda.atomic.add(out, 0, x[cuda.grid(1)])

    x = rng.uniform(size=256).astype(np.float32)
    out = np.zeros(1, np.float32)
    total[2, 128](x, out)
    close(out[0], x.sum(dtype=np.float64), 256)


@kernel
def atomic_extremes(rng):
    @cuda.jit
    def extremes(x, out):
        i = cuda.grid(1)
        cuda.atomic.max(out, 0, x[i])
        cuda.atomic.min(out, 1, x[i])

    x = rng.integers(-10**6, 10**6, 256).astype(np.int32)
    out = np.array([-(2**31), 2**31 - 1], np.int32)
    extremes[2, 128](x, out)
    same(out, [x.max(), x.min()])


@kernel
def atomic_compare_and_swap(rng):
    @cuda.jit
    def claim(slots, wins):
        i = cuda.grid(1)
        if cuda.atomic.cas(slots, i % 16, -1, i) == -1:
            cuda.atomic.add(wins, 0, 1)

    slots, wins = np.full(16, -1, np.int32), np.zeros(1, np.int32)
    claim[2, 64](slots, wins)
    same(wins, [16])
    same(slots % 16, np.arange(16))


@kernel
def scan(rng):
    @cuda.jit
    def prefix(x, out):
        shared = cuda.shared.array((2, 128), int32)
        t = cuda.threadIdx.x
        now = 0
        shared[0, t] = x[t]
        cuda.syncthreads()
        step = 1
        while step < 128:
            shared[1 - now, t] = shared[now, t] + (shared[now, t - step] if t >= step else 0)
            now = 1 - now
            cuda.syncthreads()
            step *= 2
        out[t] = shared[now, t]

    x = rng.integers(-100, 100, 128).astype(np.int32)
    out = np.zeros_like(x)
    prefix[1, 128](x, out)
    same(out, np.cumsum(x))


@kernel
def transpose(rng):
    @cuda.jit
    def turn(x, out):
        tile = cuda.shared.array((16, 17), float32)
        column, row = cuda.grid(2)
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[row, column]
        cuda.syncthreads()
        to_column = cuda.blockIdx.y * 16 + cuda.threadIdx.x
        to_row = cuda.blockIdx.x * 16 + cuda.threadIdx.y
        out[to_row, to_column] = tile[cuda.threadIdx.x, cuda.threadIdx.y]

    x = rng.normal(size=(32, 48)).astype(np.float32)
    out = np.zeros((48, 32), np.float32)
    turn[(3, 2), (16, 16)](x, out)
    same(out, x.T)


@kernel
def stencil(rng):
    @cuda.jit
    def smooth(x, out):
        i = cuda.grid(1)
        if 0 < i < x.size - 1:
            out[i] = (x[i - 1] + x[i] + x[i + 1]) / float32(3)

    x = rng.normal(size=500).astype(np.float32)
    out = np.zeros_like(x)
    smooth[4, 128](x, out)
    close(out[1:-1], (x[:-2].astype(np.float64) + x[1:-1] + x[2:]) / 3, 4)


@kernel
def mathematics(rng):
    @cuda.jit
    def evaluate(x, out):
        i = cuda.grid(1)
        v = x[i]
        out[0, i] = math.sin(v)
        out[1, i] = math.exp(v)
        out[2, i] = math.log(v)
        out[3, i] = math.sqrt(v)
        out[4, i] = math.pow(v, float32(1.7))
        out[5, i] = math.tanh(v)
        out[6, i] = math.erf(v)
        out[7, i] = math.floor(v * 3)

    x = rng.uniform(0.1, 3, 64).astype(np.float32)
    out = np.zeros((8, 64), np.float32)
    evaluate[1, 64](x, out)
    v = x.astype(np.float64)
    want = [np.sin(v), np.exp(v), np.log(v), np.sqrt(v), v**1.7, np.tanh(v), [math.erf(e) for e in v], np.floor(x * 3)]
    for got, expected in zip(out, want):
        close(got, expected, 8)


@kernel
def half_precision(rng):
    @cuda.jit
    def combine(x, y, out):
        i = cuda.grid(1)
        out[i] = x[i] * y[i] + x[i]

    x, y = rng.normal(size=(2, 64)).astype(np.float16)
    out = np.zeros_like(x)
    combine[1, 64](x, y, out)
    close(out, x.astype(np.float64) * y + x, 4, 2.0**-11)


@kernel
def bits_and_integers(rng):
    @cuda.jit
    def evaluate(x, y, out):
        i = cuda.grid(1)
        out[0, i] = cuda.popc(x[i])
        out[1, i] = cuda.clz(x[i])
        out[2, i] = cuda.brev(x[i]) & 0xFFFF
        out[3, i] = x[i] // y[i]
        out[4, i] = x[i] % y[i]
        out[5, i] = (x[i] ^ y[i]) >> 3

    x, y = rng.integers(1, 2**31 - 1, (2, 64)).astype(np.uint32)
    out = np.zeros((6, 64), np.int64)
    evaluate[1, 64](x, y, out)
    text = [f"{value:032b}" for value in x]
    same(out[0], [t.count("1") for t in text])
    same(out[1], [len(t) - len(t.lstrip("0")) for t in text])
    same(out[2], [int(t[::-1], 2) & 0xFFFF for t in text])
    same(out[3], x // y)
    same(out[4], x % y)
    same(out[5], (x ^ y) >> 3)


@kernel
def dynamic_shared_memory(rng):
    @cuda.jit
    def reverse(x):
        shared = cuda.shared.array(0, float32)
        t = cuda.threadIdx.x
        shared[t] = x[t]
        cuda.syncthreads()
        x[t] = shared[x.size - 1 - t]

    x = rng.normal(size=96).astype(np.float32)
    got = x.copy()
    reverse[1, 96, 0, 96 * 4](got)
    same(got, x[::-1])


@kernel
def constant_memory(rng):
    table = rng.normal(size=16).astype(np.float32)

    @cuda.jit
    def look_up(indices, out):
        constants = cuda.const.array_like(table)
        i = cuda.grid(1)
        out[i] = constants[indices[i]]

    indices = rng.integers(0, 16, 64).astype(np.int32)
    out = np.zeros(64, np.float32)
    look_up[1, 64](indices, out)
    same(out, table[indices])


@kernel
def local_memory(rng):
    @cuda.jit
    def sort_rows(x):
        row = cuda.grid(1)
        values = cuda.local.array(8, float32)
        for i in range(8):
            values[i] = x[row, i]
        for i in range(1, 8):
            value, j = values[i], i - 1
            while j >= 0 and values[j] > value:
                values[j + 1] = values[j]
                j -= 1
            values[j + 1] = value
        for i in range(8):
            x[row, i] = values[i]

    x = rng.normal(size=(32, 8)).astype(np.float32)
    got = x.copy()
    sort_rows[1, 32](got)
    same(got, np.sort(x, axis=1))


@kernel
def device_functions(rng):
    @cuda.jit(device=True, inline="never")
    def collatz(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    @cuda.jit
    def evaluate(x, out):
        i = cuda.grid(1)
        out[i] = collatz(x[i])

    def steps(n):
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    x = rng.integers(1, 1000, 64)
    out = np.zeros(64, np.int64)
    evaluate[1, 64](x, out)
    same(out, [steps(int(n)) for n in x])


@kernel
def records(rng):
    particle = np.dtype([("x", np.float32), ("v", np.float32), ("alive", np.int32)], align=True)

    @cuda.jit
    def move(particles, dt):
        i = cuda.grid(1)
        if particles[i]["alive"]:
            particles[i]["x"] += particles[i]["v"] * dt

    particles = np.zeros(64, particle)
    particles["x"], particles["v"] = rng.normal(size=(2, 64))
    particles["alive"] = rng.integers(0, 2, 64)
    got = particles.copy()
    move[1, 64](got, np.float32(0.5))
    close(got["x"], particles["x"] + particles["alive"] * particles["v"] * 0.5, 2)


@kernel
def complex_numbers(rng):
    @cuda.jit
    def iterate(c, out):
        i = cuda.grid(1)
        z = 0j
        count = 0
        while count < 50 and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + c[i]
            count += 1
        out[i] = count

    c = np.array([0, 1, -1, 0.25, 0.5 + 0.5j, -2.1, 1j, 2, -0.75 + 0.3j] * 4, np.complex128)[:32]
    out = np.zeros(32, np.int32)
    iterate[1, 32](c, out)
    want = []
    for value in c:
        z, count = 0j, 0
        while count < 50 and z.real**2 + z.imag**2 < 4:
            z, count = z * z + value, count + 1
        want.append(count)
    same(out, want)


@kernel
def three_dimensions(rng):
    @cuda.jit
    def fill(out):
        x, y, z = cuda.grid(3)
        if x < out.shape[0] and y < out.shape[1] and z < out.shape[2]:
            out[x, y, z] = x * 10000 + y * 100 + z

    out = np.zeros((5, 6, 7), np.int32)
    fill[(2, 2, 2), (4, 4, 4)](out)
    x, y, z = np.indices(out.shape)
    same(out, x * 10000 + y * 100 + z)


@kernel
def streams_and_pinned_memory(rng):
    @cuda.jit
    def double(x):
        x[cuda.grid(1)] *= 2

    stream = cuda.stream()
    x = cuda.pinned_array(256, np.float32)
    x[:] = rng.normal(size=256)
    want = x * 2
    with stream.auto_synchronize():
        device = cuda.to_device(x, stream=stream)
        double[2, 128, stream](device)
        device.copy_to_host(x, stream=stream)
    same(x, want)


@kernel
def ready_made_reduction(rng):
    total = cuda.reduce(lambda a, b: a + b)
    x = rng.integers(0, 100, 3000).astype(np.int64)
    assert total(x) == x.sum()


@kernel
def universal_function(rng):
    @vectorize(["float32(float32, float32)"], target="cuda")
    def hypotenuse(a, b):
        return math.sqrt(a * a + b * b)

    a, b = rng.normal(size=(2, 400)).astype(np.float32)
    close(hypotenuse(a, b), np.hypot(a.astype(np.float64), b), 4)


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [case for case in KERNELS if only in case.__name__]
    failed, start = 0, time.monotonic()
    for index, case in enumerate(chosen):
        try:
            case(np.random.default_rng(index))
        except Exception as error:  # One kernel must not hide the others.
            failed += 1
            lines = [line for line in str(error).splitlines() if line.strip()] or [""]
            print(f"FAILED {case.__name__}: {type(error).__name__}: {' '.join(lines)[:400]}", flush=True)
    print(f"{len(chosen)} kernels, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
