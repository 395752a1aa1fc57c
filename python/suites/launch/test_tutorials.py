"""Runs Triton's tutorials as scripts, without their benchmarks."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest
import triton

_FOLDER = Path(os.environ["SUITE_SOURCE"]) / "python/tutorials"

#: Sizes of matrices that take longer than a test may, and smaller ones that the kernel accepts.
_SMALLER = {"08-grouped-gemm.py": ("[1024, 512, 256, 128]", "[128, 128]")}


class _NoBenchmark:
    def __init__(self, *_: Any) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return self

    def run(self, **_: Any) -> None:
        pass


@pytest.mark.parametrize("file", sorted(path.name for path in _FOLDER.glob("0[1-8]*.py")))
def test_tutorial(file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(triton.testing, "perf_report", _NoBenchmark)
    monkeypatch.chdir(_FOLDER)
    monkeypatch.syspath_prepend(str(_FOLDER))
    path = _FOLDER / file
    if file in _SMALLER:
        path = tmp_path / file
        path.write_text((_FOLDER / file).read_text().replace(*_SMALLER[file]))
    names = runpy.run_path(str(path), run_name="__main__")
    if file.startswith("06"):
        # Its tests have tensors that take hours here; these are the smallest that it accepts.
        import torch

        q, k, v = (torch.randn(1, 2, 128, 64, dtype=torch.float16, requires_grad=True) for _ in range(3))
        out = names["attention"](q, k, v, True, 0.5, False)
        out.backward(torch.randn_like(out))
