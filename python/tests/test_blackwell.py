"""Triton kernels for Blackwell, each in a process with a simulated B200 (10.0) or RTX PRO 6000 (12.0)."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

KERNELS = Path(__file__).with_name("blackwell_kernels.py")

#: On both devices.
BOTH = [
    "f16",
    "bf16",
    "tf32",
    "fp8",
    "fp8_e5m2",
    "mxfp8",
    "mxfp4",
    "nvfp4",
    "mxfp8_by_mxfp4",
    "mxfp4_in_tiles",
    "attention_forward",
    "causal_attention",
    "persistent_product",
    "specialized_product",
]

#: Other layouts of tensor memory, `tcgen05.cp` and warps for each step.
TENSOR_MEMORY = [
    "f16_of_64_rows",
    "f16_of_256_columns",
    "f16_of_short_rows",
    "f16_sums",
    "f16_by_columns",
    "f16_by_narrow_columns",
    "fp8_by_columns",
    "int8_by_columns",
    "mxfp4_of_256_columns",
    "mxfp8_in_tiles",
    "nvfp4_in_tiles",
    "mxfp8_by_mxfp4_in_tiles",
    "specialized_attention",
    "product_in_a_cluster",
]


@pytest.mark.parametrize(
    ("device", "name"),
    [*(("b200", name) for name in BOTH + TENSOR_MEMORY), *(("rtxpro6000", name) for name in BOTH)],
)
def test_products(device, name):
    done = subprocess.run([sys.executable, str(KERNELS), device, name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
