"""Launches the sampling kernels of vLLM through its functions."""

from __future__ import annotations

import sys
import types

import pytest
import torch

# vLLM looks for the driver of a GPU among Triton's own.
_importing = types.ModuleType("vllm.triton_utils.importing")
_importing.HAS_TRITON = True  # type: ignore[attr-defined]
_importing.TritonPlaceholder = _importing.TritonLanguagePlaceholder = object  # type: ignore[attr-defined]
sys.modules["vllm.triton_utils.importing"] = _importing

from vllm.v1.sample.ops import topk_topp_triton  # noqa: E402

topk_topp_triton.num_compute_units = lambda *_: 58


@pytest.mark.parametrize("words", (300, 5000))
@pytest.mark.parametrize("top_k, top_p", ((True, False), (False, True), (True, True)))
def test_top_k_top_p(words: int, top_k: bool, top_p: bool) -> None:
    counts = torch.tensor([5, 50, words // 2], dtype=torch.int32)
    kept = topk_topp_triton.apply_top_k_top_p_triton(
        torch.randn(3, words), counts if top_k else None, torch.tensor([0.9, 0.5, 0.99]) if top_p else None
    )
    if top_k and not top_p:
        assert torch.isfinite(kept).sum(1).tolist() == counts.tolist()
