"""Measures the cost of a Triton kernel through the driver against the same PTX in `warpproof run`.

    python python/suites/overhead.py

Each side runs the kernel with few and with many blocks, without checks, and the difference of the two best times is compared: starting a
process, compiling and loading are not part of it, but the copies of the arrays are, on both sides.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy
import triton
import triton.language as tl

import warpproof
import warpproof.triton
from warpproof import _library

ROUNDS, FEW, MANY, BLOCK = 5, 8, 136, 256

#: The driver may cost this many times the time of `warpproof run`.
MOST = 1.1


@triton.jit
def horner(x, out, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    total = value
    for _ in range(ROUNDS):
        total = total * value + 0.5
    tl.store(out + i, total)


def arrays(blocks: int) -> tuple[Any, Any]:
    x = numpy.linspace(-1, 1, blocks * BLOCK, dtype=numpy.float32)
    return x, numpy.zeros_like(x)


def through_driver(blocks: int) -> float:
    x, out = arrays(blocks)
    start = time.perf_counter()
    horner[(blocks,)](x, out, ROUNDS=20_000, BLOCK=BLOCK)
    return time.perf_counter() - start


def by_itself(ptx: Path, blocks: int) -> float:
    elements = blocks * BLOCK
    sizes = ["--grid", str(blocks), "--block", "128"]
    data = [f"--arg=x:f32[{elements}]=uniform(-1,1,seed=0)", f"--arg=out:f32[{elements}]", "--arg=a:u64=0", "--arg=b:u64=0"]
    start = time.perf_counter()
    command = [str(_library.program()), "run", str(ptx), "--quiet", "--max-instructions", "1000000000", *sizes, *data]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr + done.stdout)
    return time.perf_counter() - start


def main() -> None:
    warpproof.activate(checks="none")
    warpproof.triton.install()
    x, out = arrays(FEW)
    kernel = horner[(FEW,)](x, out, ROUNDS=20_000, BLOCK=BLOCK)
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "horner.ptx"
        ptx.write_text(kernel.asm["ptx"])
        times = [
            (through_driver(FEW), through_driver(MANY), by_itself(ptx, FEW), by_itself(ptx, MANY)) for _ in range(ROUNDS)
        ]
    few, many, few_alone, many_alone = (min(column) for column in zip(*times))
    ratio = (many - few) / (many_alone - few_alone)
    print(f"measured, {MANY - FEW} blocks: {many - few:.3f} s through the driver, {many_alone - few_alone:.3f} s in `warpproof run`, ratio {ratio:.3f}")
    if ratio > MOST:
        sys.exit(f"the ratio is above {MOST}")


if __name__ == "__main__":
    main()
