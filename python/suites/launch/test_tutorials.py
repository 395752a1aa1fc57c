"""Runs Triton's tutorials as scripts, without their benchmarks."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest
import triton

_FOLDER = Path(os.environ["SUITE_SOURCE"]) / "python/tutorials"


class _NoBenchmark:
    def __init__(self, *_: Any) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return self

    def run(self, **_: Any) -> None:
        pass


@pytest.mark.parametrize("file", sorted(path.name for path in _FOLDER.glob("0[1-8]*.py")))
def test_tutorial(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.testing, "perf_report", _NoBenchmark)
    monkeypatch.chdir(_FOLDER)
    monkeypatch.syspath_prepend(str(_FOLDER))
    names = runpy.run_path(str(_FOLDER / file), run_name="__main__")
    if file.startswith("06"):
        # Its tests have tensors that take hours here; these are the smallest that it accepts.
        import torch

        q, k, v = (torch.randn(1, 2, 128, 64, dtype=torch.float16, requires_grad=True) for _ in range(3))
        out = names["attention"](q, k, v, True, 0.5, False)
        out.backward(torch.randn_like(out))
