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


class ElementType(str):
    """The name of an element type, with the properties that tensor descriptors ask for."""

    itemsize = 0
    is_floating_point = False


class HostArray:
    """A numpy array as Triton takes tensors: with `data_ptr()` and `dtype`."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype = ElementType(str(array.dtype).replace("bool", "int1"))
        self.dtype.itemsize = array.dtype.itemsize
        self.dtype.is_floating_point = array.dtype.kind == "f"
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


def descriptor(array: Any, block_shape: Sequence[int], padding: str = "zero") -> Any:
    """A tensor descriptor of Triton for a numpy array. One for a tensor of PyTorch is made by Triton's `TensorDescriptor.from_tensor`."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    strides = [stride // array.dtype.itemsize for stride in array.strides]
    return TensorDescriptor(HostArray(array), list(array.shape), strides, list(block_shape), padding)


class _Descriptor:
    """A tensor descriptor whose map is made when the address of its copy is known."""

    #: The numbers of element types in PTX, and those of the driver where they differ.
    _TYPES = {8: 10, 9: 8, 10: 9}
    _TF32 = 11

    def __init__(self, given: Any, metadata: dict[str, Any]) -> None:
        self.given, self.metadata = given, metadata

    def pack(self, address: int) -> bytes:
        """The tensor map."""
        given, metadata = self.given, self.metadata
        shape = list(given.shape)
        if metadata["fp4_padded"]:
            shape[-1] *= 2
        element = self._TYPES.get(metadata["elem_type"], metadata["elem_type"])
        if getattr(given, "round_f32_to_tf32", False):
            element = self._TF32
        return _driver.tensor_map(
            address,
            element,
            metadata["elem_size"],
            shape,
            given.strides,
            metadata["block_size"],
            swizzle=metadata["swizzle"],
            nan=given.padding == "nan",
        )


#: The type of a tensor map among the arguments.
_MAP = "map"


def _expanded(value: Any, metadata: dict[str, Any] | None) -> list[tuple[Any, str]]:
    """The arguments that a kernel takes for a tensor descriptor: a map, or the parts of it, and then sizes and strides."""
    sizes = [(size, "i32") for size in value.shape]
    strides = [(stride, "i64") for stride in value.strides]
    if metadata is not None:
        return [(_Descriptor(value, metadata), _MAP), *sizes, *strides]
    parts = [(size, "i64") for size in (*value.shape, *value.strides)]
    flags = [(value.padding == "nan", "i1"), (getattr(value, "round_f32_to_tf32", False), "i1")]
    return [(value.base, "*"), *parts, *flags, *sizes, *strides]


class Launcher:
    """Launches a compiled kernel. Triton makes one for each."""

    def __init__(self, src: Any, metadata: Any) -> None:
        signature = list(_flat(src.signature.values()))
        self._names = [name for name, ty in src.signature.items() for _ in _flat([ty])]
        #: How each tensor descriptor is stored, in order; nothing if the device has no tensor maps.
        self._maps: list[dict[str, Any]] = list(getattr(metadata, "tensordesc_meta", None) or [])
        if any(one.get("is_im2col") for one in self._maps):
            raise Unsupported("the kernel takes a tensor descriptor for im2col copies, which is not supported")
        self._blocks = getattr(metadata, "num_ctas", 1)
        self._overlaps = bool(getattr(metadata, "launch_pdl", False))
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
        values = list(self._values(arguments))
        extents = [self._extent(value) if ty.startswith("*") or ty == _MAP else None for value, ty, _ in values]
        arrays = [one for one in extents if one is not None]
        # Elements of these may be addresses of tensors.
        numbers = [one for (_, ty, _), one in zip(values, extents) if one is not None and ty in ("*i64", "*u64")]
        copies = Copies([*arrays, *pointed(numbers)])
        for array in numbers:
            copies.redirect(array)
        packed = []
        for (value, ty, name), one in zip(values, extents):
            if one is None and not ty.startswith("*"):
                packed.append(_scalar(value, ty))
                continue
            address = copies.address(one) if one else 0
            if address:
                _driver.name(address, name)
            packed.append(value.pack(address) if ty == _MAP else address.to_bytes(8, "little"))
        grid_x *= self._blocks
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
                    cluster=self._blocks,
                    overlaps=self._overlaps,
                )
            copies.copy_back()
        except _driver.DriverError as error:
            records.report().raise_for_errors(error)
            raise
        if leave is not None:
            leave(launch_metadata)

    def _values(self, arguments: Iterable[Any]) -> Iterator[tuple[Any, str, str]]:
        """The arguments in order, with their types and the names of their parameters."""
        maps = iter(self._maps)
        for value, ty, name in zip(_flat(arguments), self._signature, self._names):
            if ty == "constexpr":
                continue
            if ty.startswith("tensordesc"):
                yield from ((part, kind, name) for part, kind in _expanded(value, next(maps, None)))
            else:
                yield value, ty, name

    @staticmethod
    def _extent(value: Any) -> Extent | None:
        if isinstance(value, _Descriptor):
            value = value.given.base
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

