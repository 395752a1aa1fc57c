"""The calls of the CUDA driver API that this package makes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from ._library import loaded

#: `CUdevice_attribute`, by the names that Triton uses.
_ATTRIBUTES = {
    "max_shared_mem": 97,
    "max_num_regs": 12,
    "multiprocessor_count": 16,
    "warpSize": 10,
    "sm_clock_rate": 13,
    "mem_clock_rate": 36,
    "mem_bus_width": 37,
}


class DriverError(RuntimeError):
    """A call of the driver failed."""


def call(name: str, *arguments: Any) -> None:
    """Calls a function of the driver; raises DriverError if it fails."""
    library = loaded()
    code = getattr(library, name)(*arguments)
    if code == 0:
        return
    text = c_char_p()
    library.cuGetErrorString(code, byref(text))
    reason = text.value.decode() if text.value else f"error {code}"
    raise DriverError(f"{name}: {reason}")


def ready() -> None:
    """Makes the first device's primary context current."""
    device, context = c_int(), c_void_p()
    call("cuInit", 0)
    call("cuCtxGetCurrent", byref(context))
    if context.value:
        return
    call("cuDeviceGet", byref(device), 0)
    call("cuDevicePrimaryCtxRetain", byref(context), device)
    call("cuCtxSetCurrent", context)


def attribute(number: int) -> int:
    """An attribute of the current device."""
    ready()
    device, value = c_int(), c_int()
    call("cuCtxGetDevice", byref(device))
    call("cuDeviceGetAttribute", byref(value), number, device)
    return value.value


def capability() -> tuple[int, int]:
    """The compute capability of the current device."""
    return attribute(75), attribute(76)


def properties() -> dict[str, int]:
    """Figures of the current device, by the names that Triton uses."""
    return {name: attribute(number) for name, number in _ATTRIBUTES.items()}


class Memory:
    """Device memory that is freed with the object."""

    #: Memory that could not be freed, because its context had an error.
    _left: list[int] = []

    def __init__(self, size: int) -> None:
        ready()
        while self._left and loaded().cuMemFree_v2(c_uint64(self._left[-1])) == 0:
            self._left.pop()
        address = c_uint64()
        call("cuMemAlloc_v2", byref(address), c_size_t(max(size, 1)))
        self.address = address.value

    def __del__(self) -> None:
        address = getattr(self, "address", None)
        if address is not None:
            # At the end of the interpreter the library may be gone.
            try:
                if loaded().cuMemFree_v2(c_uint64(address)) != 0:
                    self._left.append(address)
            except Exception:
                pass


def write(address: int, source: int, size: int) -> None:
    """Copies host memory to device memory."""
    if size:
        call("cuMemcpyHtoD_v2", c_uint64(address), c_void_p(source), c_size_t(size))


def read(target: int, address: int, size: int) -> None:
    """Copies device memory to host memory."""
    if size:
        call("cuMemcpyDtoH_v2", c_void_p(target), c_uint64(address), c_size_t(size))


def name(address: int, text: str) -> None:
    """Names the memory at an address in reports."""
    call("warpproof_name_memory", c_uint64(address), c_char_p(text.encode()))


def tensor_map(
    address: int,
    element: int,
    itemsize: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    *,
    swizzle: int = 0,
    nan: bool = False,
) -> bytes:
    """The 128 bytes of a `CUtensorMap` for boxes; sizes and strides are in elements, the last dimension is contiguous."""
    rank = len(shape)
    # The driver wants the contiguous dimension first, and no stride for it.
    dims = (c_uint64 * rank)(*reversed(shape))
    steps = (c_uint64 * rank)(*(itemsize * stride for stride in reversed(strides[:-1])))
    sizes, ones = (c_uint * rank)(*reversed(box)), (c_uint * rank)(*([1] * rank))
    room = ctypes.create_string_buffer(128 + 64)
    start = -ctypes.addressof(room) % 64
    place = c_void_p(ctypes.addressof(room) + start)
    # No interleave; the L2 promotion of 128 bytes is a hint.
    call("cuTensorMapEncodeTiled", place, element, rank, c_void_p(address), dims, steps, sizes, ones, 0, swizzle, 2, int(nan))
    return room.raw[start : start + 128]


class _LaunchAttribute(ctypes.Structure):
    """`CUlaunchAttribute`."""

    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", c_uint * 16)]


class _LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("count", c_uint),
    ]


class Function:
    """A kernel of a loaded module."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.parameters: list[int] = []
        offset, size = c_size_t(), c_size_t()
        while loaded().cuFuncGetParamInfo(c_void_p(handle), c_size_t(len(self.parameters)), byref(offset), byref(size)) == 0:
            self.parameters.append(size.value)

    def expect(self, count: int) -> None:
        """Refuses another number of arguments than it has parameters."""
        if count != len(self.parameters):
            raise TypeError(f"the kernel has {len(self.parameters)} parameters, given are {count}")

    def attribute(self, number: int) -> int:
        """`CUfunction_attribute`."""
        value = c_int()
        call("cuFuncGetAttribute", byref(value), number, c_void_p(self.handle))
        return value.value

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[bytes],
        *,
        shared: int = 0,
        stream: int = 0,
        cooperative: bool = False,
        cluster: int = 1,
        overlaps: bool = False,
    ) -> None:
        """Launches it with arguments as bytes, one for each parameter.

        cluster: blocks of a cluster, along x.
        overlaps: whether it may start before the kernel before it in the stream ends (programmatic dependent launch).
        """
        self.expect(len(arguments))
        if shared > 48 * 1024:
            call("cuFuncSetAttribute", c_void_p(self.handle), 8, shared)
        buffers = [ctypes.create_string_buffer(bytes(value), max(len(value), 1)) for value in arguments]
        pointers = (c_void_p * max(len(buffers), 1))(*(ctypes.addressof(buffer) for buffer in buffers))
        sizes = [*map(c_uint, grid), *map(c_uint, block), c_uint(shared)]
        if cluster > 1 or overlaps:
            if cluster > 8:
                call("cuFuncSetAttribute", c_void_p(self.handle), 14, 1)
            given: list[tuple[int, list[int]]] = [(4, [cluster, 1, 1])] if cluster > 1 else []
            given += [(6, [1])] if overlaps else []
            given += [(2, [1])] if cooperative else []
            attributes = (_LaunchAttribute * len(given))()
            for attribute, (number, values) in zip(attributes, given):
                attribute.id, attribute.value[: len(values)] = number, values
            config = _LaunchConfig(tuple(grid), tuple(block), shared, stream, attributes, len(given))
            call("cuLaunchKernelEx", byref(config), c_void_p(self.handle), pointers, None)
        elif cooperative:
            call("cuLaunchCooperativeKernel", c_void_p(self.handle), *sizes, c_void_p(stream), pointers)
        else:
            call("cuLaunchKernel", c_void_p(self.handle), *sizes, c_void_p(stream), pointers, None)


class Module:
    """A loaded module: PTX, or machine code that carries its PTX."""

    def __init__(self, image: bytes) -> None:
        ready()
        handle = c_void_p()
        self._image = ctypes.create_string_buffer(image)
        call("cuModuleLoadData", byref(handle), self._image)
        self.handle = handle.value or 0

    def names(self) -> list[str]:
        """The names of its kernels."""
        count = c_uint()
        call("cuModuleGetFunctionCount", byref(count), c_void_p(self.handle))
        functions = (c_void_p * max(count.value, 1))()
        call("cuModuleEnumerateFunctions", functions, count, c_void_p(self.handle))
        names = []
        for function in functions[: count.value]:
            name = c_char_p()
            call("cuFuncGetName", byref(name), c_void_p(function))
            names.append(name.value.decode() if name.value else "")
        return names

    def function(self, name: str) -> Function:
        """A kernel by its name."""
        handle = c_void_p()
        call("cuModuleGetFunction", byref(handle), c_void_p(self.handle), c_char_p(name.encode()))
        return Function(handle.value or 0)


class Event:
    """A point in a stream. Times between two are predicted."""

    def __init__(self, enable_timing: bool = True, **_: Any) -> None:
        ready()
        self._handle = c_void_p()
        call("cuEventCreate", byref(self._handle), 0 if enable_timing else 2)

    def record(self, stream: Any = None) -> None:
        """Puts it into a stream."""
        call("cuEventRecord", self._handle, c_void_p(getattr(stream, "cuda_stream", stream) or 0))

    def synchronize(self) -> None:
        """Waits for it."""
        call("cuEventSynchronize", self._handle)

    def elapsed_time(self, end: Event) -> float:
        """Predicted milliseconds until another event."""
        time = c_float()
        call("cuEventElapsedTime", byref(time), self._handle, end._handle)
        return time.value


def synchronize() -> None:
    """Waits for all work."""
    ready()
    call("cuCtxSynchronize")
