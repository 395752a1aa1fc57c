"""Commands of the program, as functions."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from ._library import environment, program


def _run(command: str, kernel: str | os.PathLike[str], *arguments: str) -> Any:
    line = [str(program()), command, os.fspath(kernel), "--json", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, env=environment())
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"`{' '.join(line)}` ended with {done.returncode}:\n{done.stderr}{done.stdout}") from None


def counters(kernel: str | os.PathLike[str], *arguments: str) -> Any:
    """What a kernel does, counted: `warpproof counters KERNEL --json ARGUMENTS`.

    >>> warpproof.counters("scale.cu", "--grid", "4", "--block", "128", "--arg", "x:inout:f32[512]=ones")
    """
    return _run("counters", kernel, *arguments)


def explain(kernel: str | os.PathLike[str], *arguments: str) -> Any:
    """What a kernel costs on a device, predicted: `warpproof explain KERNEL --json ARGUMENTS`."""
    return _run("explain", kernel, *arguments)
