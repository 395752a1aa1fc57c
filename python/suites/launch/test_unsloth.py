"""Launches kernels of unsloth. Its package wants a GPU and its models when it is imported; the modules of kernels do not."""

from __future__ import annotations

import importlib.util
import sys
import types
from importlib import import_module
from pathlib import Path

import pytest
import torch
from packaging.version import Version


def _module(name: str, **contents: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


_spec = importlib.util.find_spec("unsloth")
assert _spec is not None and _spec.origin is not None
_root = Path(_spec.origin).parent
_module("unsloth", __path__=[str(_root)])
_module("unsloth.kernels", __path__=[str(_root / "kernels")])
# Its FP8 and FP4 layers need more of unsloth_zoo; no kernel here uses them.
_module("unsloth.kernels.fp8", __getattr__=lambda name: None)
_module("unsloth.kernels.nvfp4", __getattr__=lambda name: None)
_module("unsloth_zoo", __path__=[])
_module("unsloth_zoo.utils", Version=lambda text: Version(str(text)))


def tensor(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("hidden", (48, 1000))
def test_rms_layernorm(hidden: int) -> None:
    function = import_module("unsloth.kernels.rms_layernorm").Fast_RMS_Layernorm
    function.apply(tensor(2, 3, hidden), torch.randn(hidden), 1e-6, False).sum().backward()


@pytest.mark.parametrize("heads", (2, 8))
def test_rope(heads: int) -> None:
    function = import_module("unsloth.kernels.rope_embedding").Fast_RoPE_Embedding
    function.apply(tensor(1, 5, heads, 16), torch.randn(5, 16), torch.randn(5, 16)).sum().backward()


@pytest.mark.parametrize("hidden", (48, 3000))
def test_swiglu(hidden: int) -> None:
    module = import_module("unsloth.kernels.swiglu")
    gate, up = torch.randn(1, 4, hidden), torch.randn(1, 4, hidden)
    module.swiglu_fg_kernel(gate, up)
    module.swiglu_DWf_DW_dfg_kernel(torch.randn(4, hidden), gate[0], up[0])


@pytest.mark.parametrize("name", ("exact", "approx"))
def test_geglu(name: str) -> None:
    module = import_module("unsloth.kernels.geglu")
    gate, up = torch.randn(1, 4, 600), torch.randn(1, 4, 600)
    getattr(module, f"geglu_{name}_forward_kernel")(gate, up)
    getattr(module, f"geglu_{name}_backward_kernel")(torch.randn(4, 600), gate[0], up[0])
