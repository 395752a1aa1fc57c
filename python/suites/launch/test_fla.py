"""Launches kernels of flash-linear-attention through its functions."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import pytest
import torch
from triton.runtime.autotuner import Autotuner

_INIT = Autotuner.__init__


def _size(configuration: Any) -> tuple[int, int]:
    """The product of the block sizes, and the stages: shared memory grows with both."""
    return math.prod(value for value in configuration.kwargs.values() if isinstance(value, int)), configuration.num_stages


def _smallest(self: Any, function: Any, names: Any, configurations: Any, *more: Any, **options: Any) -> None:
    _INIT(self, function, names, sorted(configurations, key=_size)[:1], *more, **options)


# The package's kernels have up to dozens of configurations to choose from. To run each one takes longer than the limit of a test.
Autotuner.__init__ = _smallest


def tensors(count: int, *shape: int) -> list[torch.Tensor]:
    return [torch.randn(*shape, requires_grad=True) for _ in range(count)]


def backward(result: Any) -> None:
    output = result[0] if isinstance(result, tuple) else result
    (output * torch.randn_like(output)).sum().backward()


def gate(*shape: int) -> torch.Tensor:
    return torch.nn.functional.logsigmoid(torch.randn(*shape)).requires_grad_()


@pytest.mark.parametrize("size", (16, 64))
@pytest.mark.parametrize("kind", ("fused_recurrent", "chunk"))
@pytest.mark.parametrize("name", ("retention", "gla", "simple_gla", "linear_attn", "delta_rule", "gated_delta_rule"))
def test_attention(name: str, kind: str, size: int) -> None:
    shape = (1, 20, 2, size)
    function = getattr(import_module(f"fla.ops.{name}"), f"{kind}_{name}")
    q, k, v = tensors(3, *shape)
    if name == "delta_rule" and kind == "chunk":
        # It refuses 32-bit numbers.
        q, k, v = (tensor.detach().bfloat16().requires_grad_() for tensor in (q, k, v))
    if name in ("delta_rule", "gated_delta_rule"):
        k = torch.nn.functional.normalize(k, dim=-1)
    beta, decay = torch.rand(shape[:3]).requires_grad_(), gate(*shape[:3])
    more: dict[str, dict[str, Any]] = {
        "gla": {"g" if kind == "chunk" else "gk": gate(*shape)},
        "delta_rule": {"beta": beta.to(q.dtype)},
        "gated_delta_rule": {"g": decay, "beta": beta},
        "simple_gla": {"g": decay},
    }
    result = function(q, k, v, **more.get(name, {}))
    # The one function without a backward pass.
    if (name, kind) != ("gated_delta_rule", "fused_recurrent"):
        backward(result)


@pytest.mark.parametrize("block", (16, 32, 64))
def test_solve_tril(block: int) -> None:
    import_module("fla.ops.utils.solve_tril").solve_tril(torch.tril(torch.randn(1, 70, 2, block) * 0.1, -1))


@pytest.mark.parametrize("name", ("RMSNorm", "LayerNorm", "GroupNorm"))
def test_norm(name: str) -> None:
    (x,) = tensors(1, 2, 5, 64)
    module = getattr(import_module("fla.modules"), name)
    backward((module(4, 64) if name == "GroupNorm" else module(64))(x))


def test_short_convolution() -> None:
    (x,) = tensors(1, 1, 12, 32)
    backward(import_module("fla.modules").ShortConvolution(32, 4)(x))
