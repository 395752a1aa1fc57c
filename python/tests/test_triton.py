"""Findings in Triton kernels whose threads hold the same elements: none, or a note that says why."""

import sys
import types

import numpy as np
import pytest

import warpproof

pytest.importorskip("triton")
import warpproof.triton  # noqa: E402

warpproof.triton.install()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402


@triton.jit
def total(x, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N))))


@triton.jit
def largest(x, out, N: tl.constexpr):
    tl.store(out, tl.argmax(tl.load(x + tl.arange(0, N)), 0).to(tl.float32))


@triton.jit
def softmax(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + i, v / tl.sum(v, axis=0))


@triton.jit
def scan(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))


@triton.jit
def rows(x, out, N: tl.constexpr):
    i, j = tl.arange(0, 4), tl.arange(0, N)
    tl.store(out + i, tl.sum(tl.load(x + i[:, None] * N + j[None, :]), axis=1))


@triton.jit
def columns(x, out, N: tl.constexpr):
    i, j = tl.arange(0, 4), tl.arange(0, N)
    tl.store(out + j, tl.max(tl.load(x + i[:, None] * N + j[None, :]), axis=0))


@triton.jit
def ordered(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i)))


@triton.jit
def scale(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, 2 * tl.load(x + i))


@triton.jit
def product(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out, tl.sum(tl.load(x + i) * tl.load(x + N + i)))


@triton.jit
def beyond(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i + 1, tl.load(x + i))


@triton.jit
def compact(x, out, N: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    keep = value > 0
    count = tl.sum(keep.to(tl.int32))
    place = tl.cumsum(keep.to(tl.int32)) - 1
    tl.store(out + place, value, mask=keep)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x + i, tl.load(out + i, mask=i < count, other=0.0))


@triton.jit
def logarithm(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.log(tl.load(x + i)))


def findings(kernel, size, warps, **options):
    x = np.random.default_rng(0).standard_normal(4 * size).astype(np.float32)
    out = np.zeros(size, np.float32)
    with warpproof.check() as report:
        kernel[(1,)](x, out, N=size, num_warps=warps, **options)
    assert report.launches == 1
    return report.findings


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("size", [2, 32, 64, 256])
@pytest.mark.parametrize("kernel", [total, largest, softmax, scan, rows, columns, ordered])
def test_reductions_are_silent(kernel, size, warps):
    if kernel is rows or kernel is columns:
        size = max(size, 16)
    assert findings(kernel, size, warps) == []


def test_a_tensor_changed_in_place_is_a_note():
    (finding,) = findings(scale, 32, 4)
    assert finding.severity == "note" and "the value that was read has no effect" in finding.message
    assert findings(scale, 128, 4) == []
    # It has a branch for infinities.
    assert [finding.severity for finding in findings(logarithm, 64, 4)] == ["note"]


def test_a_fused_product_is_a_note():
    (finding,) = findings(product, 64, 4, enable_fp_fusion=True)
    assert finding.severity == "note" and "enable_fp_fusion=False" in finding.help
    assert findings(product, 64, 4, enable_fp_fusion=False) == []


def test_a_buffer_is_read_after_a_barrier():
    assert {finding.kind for finding in findings(compact, 256, 4, BARRIER=False)} == {"global-race"}
    assert findings(compact, 256, 4, BARRIER=True) == []


def test_an_array_has_the_name_of_the_parameter():
    with pytest.raises(warpproof.KernelError, match="`out`"):
        findings(beyond, 64, 4)


@triton.jit
def through_addresses(addresses, out, N: tl.constexpr):
    i = tl.arange(0, N)
    first = tl.load(addresses).to(tl.pointer_type(tl.float32))
    second = tl.load(addresses + 1).to(tl.pointer_type(tl.float32))
    tl.store(second + i, tl.load(first + i) + 1)
    tl.store(out, tl.load(addresses + 2))


class Tensor:
    """What the package needs of PyTorch's tensors."""

    device = types.SimpleNamespace(type="cpu")

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return self

    def nbytes(self):
        return self.array.nbytes


def test_tensors_whose_addresses_are_in_an_array_are_copied(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor))
    first, second = Tensor(np.arange(16, dtype=np.float32)), Tensor(np.zeros(16, np.float32))
    addresses = np.array([first.data_ptr(), second.data_ptr(), 1 << 40], np.int64)
    before, out = addresses.copy(), np.zeros(1, np.int64)
    with warpproof.check() as report:
        through_addresses[(1,)](addresses, out, 16)
    assert not report.findings
    assert (second.array == first.array + 1).all()
    # The program's addresses stay, and a number that is not the address of a tensor is passed on.
    assert (addresses == before).all() and out[0] == 1 << 40
