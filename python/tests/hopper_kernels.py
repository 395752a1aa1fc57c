"""Triton kernels for Hopper: tensor descriptors, clusters, dependent launches, warp specialization. `test_hopper.py` runs it.

A process has one simulated device, and the other tests use one without tensor maps.
"""

import sys

import numpy as np

import warpproof

warpproof.activate("h100")
import warpproof.triton  # noqa: E402

warpproof.triton.install()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

M, N, K = 100, 96, 80


@triton.jit
def product(a, b, c, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def product_of_pointers(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                        SPECIALIZE: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BLOCK_K, BLOCK_N])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BLOCK_M, BLOCK_N])
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, k, BLOCK_K, warp_specialize=SPECIALIZE):
        total = tl.dot(a_tiles.load([row, start]), b_tiles.load([start, column]), total)
    c_tiles.store([row, column], total.to(tl.float16))


@triton.jit
def beyond(x, out, N: tl.constexpr):
    out.store([0], x.load([0]))


def matrices():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    # Sums of small integers are exact in every type.
    return a, b, np.zeros((M, N), np.float16), a.astype(np.float64) @ b.astype(np.float64)


def described(**options):
    a, b, c, wanted = matrices()
    tiles = [warpproof.triton.descriptor(array, block) for array, block in ((a, [64, 32]), (b, [32, 64]), (c, [64, 64]))]
    with warpproof.check() as report:
        product[(2, 2)](*tiles, K, 64, 64, 32, num_warps=4, **options)
    assert report.findings == [], report.findings
    assert (c == wanted).all()


def by_the_host():
    described()


def by_the_kernel(rows=64, specialize=False):
    a, b, c, wanted = matrices()
    with warpproof.check() as report:
        product_of_pointers[(-(-M // rows), 2)](a, b, c, M, N, K, rows, 64, 32, SPECIALIZE=specialize, num_warps=4)
    assert report.findings == [], report.findings
    assert (c == wanted).all()


def in_a_cluster():
    described(num_ctas=2)


def as_a_dependent_launch():
    described(launch_pdl=True)


def with_specialized_warps():
    # Triton 3.9 gives half of the rows to each of two warpgroups. With 64 rows, both would compute and store all of them.
    by_the_kernel(rows=128, specialize=True)


def outside_of_the_array():
    """A descriptor that is larger than its array."""
    x, out = np.zeros(64, np.float16), np.zeros(128, np.float16)
    wrong = warpproof.triton.descriptor(x, [128])
    wrong.shape = [128]
    try:
        with warpproof.check() as report:
            beyond[(1,)](wrong, warpproof.triton.descriptor(out, [128]), N=128)
    except warpproof.KernelError:
        return
    assert report.findings, "an access behind the array is not reported"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
