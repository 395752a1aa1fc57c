"""Triton kernels for Hopper, each in a process with a simulated H100."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

KERNELS = Path(__file__).with_name("hopper_kernels.py")


@pytest.mark.parametrize(
    "name",
    [
        "by_the_host",
        "by_the_kernel",
        "in_a_cluster",
        "as_a_dependent_launch",
        "with_specialized_warps",
        "outside_of_the_array",
    ],
)
def test_tensor_descriptors(name):
    done = subprocess.run([sys.executable, str(KERNELS), name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
