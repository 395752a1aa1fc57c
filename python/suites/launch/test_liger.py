"""Launches kernels of Liger-Kernel through its functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from liger_kernel.transformers import functional as F
from liger_kernel.transformers.group_norm import LigerGroupNorm
from liger_kernel.transformers.layer_norm import LigerLayerNorm
from liger_kernel.transformers.rms_norm import LigerRMSNorm
from liger_kernel.transformers.rope import liger_rotary_pos_emb


def backward(result: Any) -> None:
    values = result if isinstance(result, tuple) else (result,)
    sum((value.float() * torch.randn_like(value.float())).sum() for value in values if value is not None and value.requires_grad).backward()


def tensor(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("columns", (41, 1000, 70000))
@pytest.mark.parametrize("options", ({}, {"label_smoothing": 0.1}, {"softcap": 30.0}, {"reduction": "sum"}), ids=str)
def test_cross_entropy(columns: int, options: dict[str, Any]) -> None:
    x, target = tensor(3, columns), torch.randint(0, columns, (3,))
    backward(F.liger_cross_entropy(x, target, **options))


@pytest.mark.parametrize("shape", ((2, 4, 8, 2), (2, 4, 33, 2), (2, 4, 64, 1), (2, 6, 128, 2), (2, 4, 300, 2)))
def test_group_norm(shape: tuple[int, ...]) -> None:
    batch, channels, hidden, groups = shape
    backward(LigerGroupNorm(channels, groups)(tensor(batch, channels, hidden)))


@pytest.mark.parametrize("hidden", (37, 64, 1000))
@pytest.mark.parametrize("norm", (LigerLayerNorm, LigerRMSNorm))
def test_norm(norm: Any, hidden: int) -> None:
    backward(norm(hidden)(tensor(5, hidden)))


def test_rope() -> None:
    backward(liger_rotary_pos_emb(tensor(1, 4, 6, 16), tensor(1, 2, 6, 16), torch.randn(1, 6, 16), torch.randn(1, 6, 16)))


@pytest.mark.parametrize("name", ("liger_swiglu", "liger_geglu"))
@pytest.mark.parametrize("hidden", (40, 512))
def test_gated(name: str, hidden: int) -> None:
    backward(getattr(F, name)(tensor(4, hidden), tensor(4, hidden)))


@pytest.mark.parametrize("name", ("liger_jsd", "liger_kl_div", "liger_tvd"))
@pytest.mark.parametrize("columns", (50, 3000))
def test_divergence(name: str, columns: int) -> None:
    x = torch.randn(4, columns).log_softmax(-1).requires_grad_()
    target = torch.randn(4, columns).softmax(-1)
    backward(getattr(F, name)(x, target.log() if name == "liger_jsd" else target))


@pytest.mark.parametrize("columns", (48, 2000))
def test_fused_linear_cross_entropy(columns: int) -> None:
    backward(F.liger_fused_linear_cross_entropy(tensor(6, 32), tensor(columns, 32), torch.randint(0, columns, (6,))))


def test_softmax() -> None:
    backward(F.liger_softmax(tensor(4, 100)))


def test_sparsemax() -> None:
    backward(F.liger_sparsemax(tensor(4, 100)))


def test_dyt() -> None:
    backward(F.liger_dyt(tensor(4, 64), tensor(1), tensor(64), tensor(64)))
