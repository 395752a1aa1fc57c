"""Triton on the software GPU: a driver through Triton's own interface, for CPU tensors and numpy arrays.

`install()` makes it Triton's active driver. Kernels are compiled by Triton and launched as usual; arrays in host memory are copied to the
device for each launch, and back. No C compiler and no PyTorch is needed.
"""

from __future__ import annotations

import functools
import struct
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import driver as active
from triton.runtime.cache import get_cache_manager
from triton.runtime.jit import JITFunction

from . import _driver
from ._arrays import Copies, Extent, extent, pointed
from ._library import activate
from ._report import Records

_FORMATS = {
    "i1": "<?",
    "i8": "<b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "u1": "<?",
    "u8": "<B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
    "fp16": "<e",
    "fp32": "<f",
    "f32": "<f",
    "fp64": "<d",
}


class Unsupported(NotImplementedError):
    """A kernel needs what the simulated device does not have."""


class HostArray:
    """A numpy array as Triton takes tensors: with `data_ptr()` and `dtype`."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype = str(array.dtype).replace("bool", "int1")
        self.__array_interface__ = array.__array_interface__

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flat(value)
        else:
            yield value


def _scalar(value: Any, ty: str) -> bytes:
    if ty == "bf16":
        return struct.pack("<f", value)[2:]
    return struct.pack(_FORMATS[ty], value)


class Launcher:
    """Launches a compiled kernel. Triton makes one for each."""

    def __init__(self, src: Any, metadata: Any) -> None:
        signature = list(_flat(src.signature.values()))
        self._names = [name for name, ty in src.signature.items() for _ in _flat([ty])]
        if any(str(ty).startswith(("tensordesc", "nvTmaDesc")) for ty in signature):
            raise Unsupported("the kernel takes tensor descriptors: they need Hopper's TMA, which is not supported yet")
        if getattr(metadata, "num_ctas", 1) > 1:
            raise Unsupported("the kernel has num_ctas > 1: clusters need Hopper, which is not supported yet")
        self._signature = signature
        self._threads = 32 * metadata.num_warps
        self._shared = metadata.shared
        self._cooperative = bool(getattr(metadata, "launch_cooperative_grid", False))
        self._scratch = getattr(metadata, "global_scratch_size", 0) or 0
        # Triton loads the kernel right after this.
        file = get_cache_manager(metadata.hash).get_file(f"{metadata.name}.ptx")
        active.active.utils.ptx = _with_lines(Path(file).read_text()).encode() if file else None  # pyright: ignore[reportAttributeAccessIssue]

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: int,
        kernel_metadata: Any,
        launch_metadata: Any,
        enter: Callable[[Any], None] | None,
        leave: Callable[[Any], None] | None,
        *arguments: Any,
    ) -> None:
        kernel = _function(function)
        typed = zip(_flat(arguments), self._signature, self._names)
        values = [(value, ty, name) for value, ty, name in typed if ty != "constexpr"]
        extents = [self._extent(value) if ty.startswith("*") else None for value, ty, _ in values]
        arrays = [one for one in extents if one is not None]
        # Elements of these may be addresses of tensors.
        numbers = [one for (_, ty, _), one in zip(values, extents) if one is not None and ty in ("*i64", "*u64")]
        copies = Copies([*arrays, *pointed(numbers)])
        for array in numbers:
            copies.redirect(array)
        packed = []
        for (value, ty, name), one in zip(values, extents):
            if not ty.startswith("*"):
                packed.append(_scalar(value, ty))
                continue
            address = copies.address(one) if one else 0
            if address:
                _driver.name(address, name)
            packed.append(address.to_bytes(8, "little"))
        blocks = grid_x * grid_y * grid_z
        scratch = _driver.Memory(self._scratch * blocks) if self._scratch and blocks else None
        # After its own arguments a kernel takes pointers to scratch memory; their number depends on Triton's version.
        pointers = [scratch.address if scratch else 0, 0, 0]
        packed.extend(pointer.to_bytes(8, "little") for pointer in pointers[: len(kernel.parameters) - len(packed)])
        if enter is not None:
            enter(launch_metadata)
        records = Records()
        try:
            if blocks:
                kernel.launch(
                    (grid_x, grid_y, grid_z),
                    (self._threads, 1, 1),
                    packed,
                    shared=self._shared,
                    stream=stream,
                    cooperative=self._cooperative,
                )
            copies.copy_back()
        except _driver.DriverError as error:
            records.report().raise_for_errors(error)
            raise
        if leave is not None:
            leave(launch_metadata)

    @staticmethod
    def _extent(value: Any) -> Extent | None:
        if value is None or isinstance(value, int) and value == 0:
            return None
        if isinstance(value, int):
            return Extent(value, value, value, True, True)
        found = extent(value)
        if found is None:
            raise TypeError(f"a kernel takes a pointer here; {type(value).__name__} is not an array")
        return found


_FUNCTIONS: dict[int, _driver.Function] = {}


def _function(handle: int) -> _driver.Function:
    # A handle is not used again by the driver.
    if handle not in _FUNCTIONS:
        _FUNCTIONS[handle] = _driver.Function(handle)
    return _FUNCTIONS[handle]


def _with_lines(ptx: str) -> str:
    """PTX whose inline assembly has the line of the call: LLVM counts the lines of the assembly on from it."""
    lines, before, inside = [], "", False
    for line in ptx.splitlines():
        text = line.strip()
        if text.startswith(("// begin inline asm", "// end inline asm")):
            inside = text.startswith("// begin")
        elif text.startswith(".loc"):
            if inside and before:
                line = before
            before = line
        lines.append(line)
    return "\n".join(lines) + "\n"


class Utils:
    """What Triton's compiler asks a driver for."""

    def __init__(self) -> None:
        self._modules: dict[int, _driver.Module] = {}
        #: The PTX of the kernel that is loaded next: machine code has lost the lines of the source.
        self.ptx: bytes | None = None

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Loads a compiled kernel: its module, function, registers, spills, most threads."""
        module = _driver.Module(self.ptx or kernel)
        self.ptx = None
        self._modules[module.handle] = module
        function = module.function(name)
        return module.handle, function.handle, function.attribute(4), 0, function.attribute(0)

    def unload_module(self, module: int) -> None:
        """Forgets a module. Its memory stays until the process ends."""
        self._modules.pop(module, None)

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Figures of the device."""
        return _driver.properties()


class _Stream:
    cuda_stream = 0


class DeviceInterface:
    """The part of `torch.cuda` that Triton's benchmarks use."""

    Event = _driver.Event

    @staticmethod
    def synchronize(*_: Any) -> None:
        _driver.synchronize()

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def current_stream(*_: Any) -> _Stream:
        return _Stream()


def benchmark(call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **_: Any) -> Any:
    """Predicted milliseconds of a call. The software GPU is deterministic, so it runs once, and every quantile is the same."""
    _say_once("times of Triton's autotuner and benchmarks are predicted for the simulated device, not measured")
    start, end = _driver.Event(), _driver.Event()
    start.record()
    call()
    end.record()
    time = start.elapsed_time(end)
    return [time] * len(quantiles) if quantiles is not None else time


@functools.cache
def _say_once(sentence: str) -> None:
    print(f"warpproof: {sentence}", file=sys.stderr)


class Driver(DriverBase):  # type: ignore[misc]
    """The software GPU as a driver of Triton."""

    def __init__(self) -> None:
        activate()
        _driver.ready()
        self.utils = Utils()
        self.launcher_cls = Launcher

    @classmethod
    def is_active(cls) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "CUdeviceptr" if ty.startswith("*") else ty

    def get_current_target(self) -> Any:
        major, minor = _driver.capability()
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return _driver.capability()

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        if device != 0:
            raise Unsupported("one device is simulated for Triton")

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        return torch.device("cpu")

    def get_device_interface(self) -> type[DeviceInterface]:
        return DeviceInterface

    def get_benchmarker(self) -> Callable[..., Any]:
        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        return types.SimpleNamespace(zero_=lambda: None)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()


def _with_arrays(run: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a kernel take numpy arrays, which lack the two names by which Triton recognizes tensors."""

    def is_array(value: Any) -> bool:
        return type(value).__module__ == "numpy" and hasattr(value, "ctypes") and hasattr(value, "shape")

    def wrap(value: Any) -> Any:
        return HostArray(value) if is_array(value) else value

    @functools.wraps(run)
    def wrapped(self: Any, *arguments: Any, **options: Any) -> Any:
        return run(self, *map(wrap, arguments), **{name: wrap(value) for name, value in options.items()})

    return wrapped


def install() -> None:
    """Makes the software GPU Triton's active driver."""
    if isinstance(getattr(active, "_active", None), Driver):
        return
    active.set_active(Driver())
    if not hasattr(JITFunction.run, "__wrapped__"):
        JITFunction.run = _with_arrays(JITFunction.run)

