"""Launches operators of FlagGems through its functions."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

os.environ["GEMS_VENDOR"] = "nvidia"

import flag_gems  # noqa: E402

_CALLS: dict[str, tuple[Any, ...]] = {
    "softmax": (1,),
    "log_softmax": (1,),
    "sum": (),
    "mean": (),
    "max": (),
    "argmax": (),
    "cumsum": (1,),
    "add": (2.0,),
    "gelu": (),
    "all": (),
}


@pytest.mark.parametrize("name", _CALLS)
@pytest.mark.parametrize("columns", (50, 1000))
def test_operator(name: str, columns: int) -> None:
    x = torch.randn(4, columns)
    got, want = getattr(flag_gems, name)(x, *_CALLS[name]), getattr(torch.nn.functional if name == "gelu" else torch, name)(x, *_CALLS[name])
    torch.testing.assert_close(got, want)
