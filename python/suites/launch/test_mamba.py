"""Launches kernels of Mamba through its functions. Its CUDA extension is not built; the Triton kernels do not use it."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import pytest
import torch

sys.path.insert(0, os.environ["SUITE_SOURCE"])
sys.modules["selective_scan_cuda"] = types.ModuleType("selective_scan_cuda")

from mamba_ssm.ops.triton.layernorm_gated import layernorm_fn, rmsnorm_fn  # noqa: E402
from mamba_ssm.ops.triton.selective_state_update import selective_state_update  # noqa: E402
from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined  # noqa: E402


def tensor(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("length, chunk", ((20, 16), (70, 32)))
def test_chunk_scan(length: int, chunk: int) -> None:
    x, b, c = tensor(1, length, 2, 16), tensor(1, length, 1, 16), tensor(1, length, 1, 16)
    rate, dt = (-torch.rand(2)).requires_grad_(), torch.rand(1, length, 2, requires_grad=True)
    out = mamba_chunk_scan_combined(x, dt, rate, b, c, chunk, D=tensor(2), dt_bias=tensor(2), dt_softplus=True)
    (out * torch.randn_like(out)).sum().backward()


@pytest.mark.parametrize("size", (16, 64))
def test_state_update(size: int) -> None:
    state = torch.randn(2, 32, size)
    x, dt, rate = torch.randn(2, 32), torch.rand(2, 32), -torch.rand(32, size)
    b, c = torch.randn(2, size), torch.randn(2, size)
    selective_state_update(state, x, dt, rate, b, c, D=torch.randn(32), dt_bias=torch.rand(32), dt_softplus=True)


@pytest.mark.parametrize("norm", (layernorm_fn, rmsnorm_fn))
@pytest.mark.parametrize("hidden", (48, 256))
def test_gated_norm(norm: Any, hidden: int) -> None:
    out = norm(tensor(6, hidden), tensor(hidden), tensor(hidden), z=tensor(6, hidden))
    (out * torch.randn_like(out)).sum().backward()
