"""Find bugs in CUDA and Triton kernels, without a GPU.

>>> import warpproof
>>> warpproof.activate(device="l4")          # before anything loads libcuda
>>> with warpproof.check() as report:
...     kernel[grid](x, y)                   # Triton, numba, cuda.core, anything that uses the CUDA driver API
>>> report.findings
[]
"""

from __future__ import annotations

from ._arrays import DeviceArray, to_device
from ._commands import counters, explain
from ._launch import launch
from ._library import Inactive, activate, is_active, library, program
from ._report import Finding, KernelError, Place, Report, check

__all__ = [
    "DeviceArray",
    "Finding",
    "Inactive",
    "KernelError",
    "Place",
    "Report",
    "activate",
    "check",
    "counters",
    "explain",
    "is_active",
    "launch",
    "library",
    "program",
    "to_device",
]
