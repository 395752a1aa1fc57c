"""Reproduces the findings of the suites with kernels of our own, and checks that each fix silences its error.

    python python/suites/findings.py

The book's page of the suites shows these kernels.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy
import triton
import triton.language as tl

import warpproof
import warpproof.triton


@triton.jit
def dot(x, y, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out, tl.sum(tl.load(x + i) * tl.load(y + i)))


@triton.jit
def compact(x, buffer, out, SIZE: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, SIZE)
    value = tl.load(x + i)
    keep = value > 0
    count = tl.sum(keep.to(tl.int32))
    place = tl.cumsum(keep.to(tl.int32)) - 1
    tl.store(buffer + place, value, mask=keep)
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + i, tl.load(buffer + i, mask=i < count, other=0.0))


def errors(kernel: Any, *arguments: Any, **options: Any) -> list[str]:
    """The classes of the errors of a launch with one program."""
    with warpproof.check() as report:
        kernel[(1,)](*arguments, **options)
    return [finding.kind for finding in report.errors]


def main() -> None:
    """Checks each pair."""
    warpproof.triton.install()
    random = numpy.random.default_rng(0)
    x, y = random.normal(size=(2, 64)).astype("float32")
    one = numpy.zeros(1, "float32")
    assert errors(dot, x, y, one, SIZE=64) == ["shared-race"]
    assert errors(dot, x, y, one, SIZE=64, enable_fp_fusion=False) == []
    x = random.normal(size=256).astype("float32")
    for barrier, expected in ((False, {"global-race"}), (True, set())):
        out = numpy.zeros_like(x)
        assert set(errors(compact, x, numpy.zeros_like(x), out, SIZE=256, BARRIER=barrier)) == expected
    print("all findings reproduced, all fixes without errors")


if __name__ == "__main__":
    main()
