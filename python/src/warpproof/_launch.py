"""Launches a kernel of CUDA C++ or PTX."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _driver
from ._arrays import Copies, extent
from ._driver import DriverError, Module, capability, synchronize
from ._library import activate, environment, program
from ._report import Report, check


def launch(
    source: str | os.PathLike[str],
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *arguments: Any,
    kernel: str | None = None,
    shared: int = 0,
) -> Report:
    """Runs a kernel on the software GPU and returns what the checks found.

    source: CUDA C++ or PTX, as text or as the path of a `.cu` or `.ptx` file.
    grid, block: up to three sizes.
    arguments: arrays (numpy, CPU tensors, anything with `__dlpack__` or `__cuda_array_interface__`), and numbers.
    kernel: its name, if the source has several.
    shared: bytes of dynamic shared memory.

    Arrays in host memory are copied to the device and back.
    """
    activate()
    module = Module(ptx(source))
    names = module.names()
    found = [name for name in names if kernel is None or name == kernel or _plain(name) == kernel]
    if len(found) != 1:
        wanted = f"no single kernel `{kernel}`" if kernel else "several kernels; name one with kernel="
        raise ValueError(f"{wanted}; the source has {', '.join(map(_plain, names)) or 'none'}")
    function = module.function(found[0])
    function.expect(len(arguments))
    extents = [extent(argument) for argument in arguments]
    copies = Copies(one for one in extents if one is not None)
    for number, one in enumerate(extents, 1):
        if one is not None and copies.address(one):
            _driver.name(copies.address(one), f"argument {number}")
    values = [
        _packed(argument, size) if one is None else copies.address(one).to_bytes(8, "little")
        for argument, one, size in zip(arguments, extents, function.parameters)
    ]
    failure: DriverError | None = None
    with check() as report:
        try:
            function.launch(_three(grid), _three(block), values, shared=shared)
            synchronize()
        except DriverError as error:
            failure = error
    if failure is not None and not report.errors:
        raise failure
    copies.copy_back()
    return report


def _three(size: int | Sequence[int]) -> list[int]:
    sizes = [size] if isinstance(size, int) else list(size)
    return [*sizes, 1, 1][:3]


def _plain(name: str) -> str:
    """The name in the source of a mangled one without namespaces: `_Z5scalePfi` is `scale`."""
    if not name.startswith("_Z"):
        return name
    digits = len(name[2:]) - len(name[2:].lstrip("0123456789"))
    return name[2 + digits :][: int(name[2 : 2 + digits])] if digits else name


def ptx(source: str | os.PathLike[str]) -> bytes:
    """The PTX of CUDA C++ or PTX, for the active device."""
    text = os.fspath(source)
    path = Path(text) if "\n" not in text and text.endswith((".cu", ".ptx", ".cuh")) else None
    content = path.read_text() if path else text
    if ".target" in content and ".version" in content:
        return content.encode()
    major, minor = capability()
    with tempfile.TemporaryDirectory() as folder:
        file = path or Path(folder) / "kernel.cu"
        if path is None:
            file.write_text(content)
        arch = f"sm_{major}{minor}"
        command = [str(program()), "build", str(file), "--arch", arch, "--emit", "ptx", "--output", folder, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        if done.returncode != 0:
            raise ValueError(f"the kernel does not compile:\n{done.stderr}{done.stdout}")
        (out,) = Path(folder).glob("*.ptx")
        return out.read_bytes()


def _packed(value: Any, size: int) -> bytes:
    """A number as the bytes of a parameter of this size."""
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        data = value.tobytes()
        if len(data) != size:
            raise TypeError(f"the parameter has {size} bytes, {value!r} has {len(data)}")
        return bytes(data)
    if isinstance(value, ctypes._SimpleCData):
        return bytes(value)
    if isinstance(value, float):
        kind = {4: ctypes.c_float, 8: ctypes.c_double}.get(size)
        if kind is None:
            raise TypeError(f"a float for a parameter of {size} bytes; give a numpy scalar of its type")
        return bytes(kind(value))
    if isinstance(value, (bool, int)):
        return int(value).to_bytes(size, "little", signed=value < 0)
    raise TypeError(f"cannot pass {type(value).__name__} to a kernel")
