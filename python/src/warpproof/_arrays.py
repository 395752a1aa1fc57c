"""Arrays of any library as arguments of kernels.

An array in device memory is passed as it is. An array in host memory is copied to the device for the launch, and back afterwards.
Arrays that overlap, such as views of one tensor, share one copy, and each copy ends where the memory of its arrays ends: an access behind
it is reported. An array may contain addresses of PyTorch's CPU tensors, as that of a grouped matrix product does: the tensors are copied too.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from ctypes import addressof, c_uint64
from dataclasses import dataclass
from typing import Any

from . import _driver

#: Kernels may be compiled for pointers that are multiples of 16.
_ALIGN = 16

#: Larger arrays, in bytes, are not searched for addresses.
_SEARCHED = 1 << 16

#: Numbers outside of this range are not searched for: they are not addresses of host memory.
_ADDRESSES = range(1 << 32, 1 << 47)


@dataclass(frozen=True)
class Extent:
    """The memory of an array."""

    address: int
    start: int
    end: int
    on_device: bool
    writable: bool


def _strided(address: int, shape: Iterable[int], strides: Iterable[int], itemsize: int) -> tuple[int, int]:
    """The first byte and the byte behind the last."""
    low = high = 0
    for count, stride in zip(shape, strides):
        if count == 0:
            return address, address
        reach = (count - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return address + low, address + high + itemsize


def extent(value: Any) -> Extent | None:
    """The memory of an array; `None` if the value is not an array."""
    if isinstance(value, (int, float, complex, bool, str, bytes)):
        return None
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        address, read_only = interface["data"]
        return Extent(address, address, address, True, not read_only)
    interface = getattr(value, "__array_interface__", None)
    # numpy's scalars have the interface too; only arrays are memory.
    if interface is not None and (interface["shape"] or hasattr(value, "ctypes")):
        return _of_interface(interface)
    if callable(getattr(value, "data_ptr", None)):
        return _of_tensor(value)
    if hasattr(value, "__dlpack__"):
        import numpy

        return extent(numpy.from_dlpack(value))
    return None


def _of_interface(interface: dict[str, Any]) -> Extent:
    address, read_only = interface["data"]
    shape = interface["shape"]
    itemsize = int(interface["typestr"][2:])
    strides = interface.get("strides") or _contiguous(shape, itemsize)
    start, end = _strided(address, shape, strides, itemsize)
    return Extent(address, start, end, False, not read_only)


def _contiguous(shape: tuple[int, ...], itemsize: int) -> list[int]:
    strides = [itemsize] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _of_tensor(value: Any) -> Extent:
    address = value.data_ptr()
    device = getattr(value, "device", None)
    if device is None or getattr(device, "type", "cpu") not in ("cpu", "meta"):
        # Triton's duck type: a pointer that the driver knows.
        return Extent(address, address, address, True, True)
    storage = getattr(value, "untyped_storage", None)
    if storage is not None:
        memory = storage()
        start = memory.data_ptr()
        return Extent(address, start, start + memory.nbytes(), False, True)
    itemsize = value.element_size()
    strides = [stride * itemsize for stride in value.stride()]
    start, end = _strided(address, value.shape, strides, itemsize)
    return Extent(address, start, end, False, True)


def _addresses(one: Extent) -> Iterator[tuple[int, int]]:
    """The 64-bit elements of a host array that may be addresses: where each is, and its value."""
    if one.on_device or one.end - one.start > _SEARCHED:
        return
    for place in range(one.start + (one.address - one.start) % 8, one.end - 7, 8):
        number = c_uint64.from_address(place).value
        if number in _ADDRESSES:
            yield place, number


def pointed(arrays: Iterable[Extent]) -> list[Extent]:
    """PyTorch's tensors in host memory whose addresses are elements of arrays."""
    numbers = {number for one in arrays for _, number in _addresses(one)}
    torch = sys.modules.get("torch")
    if not numbers or torch is None:
        return []
    found = []
    for value in gc.get_objects():
        # Other objects may have a `__class__` that does something.
        if not issubclass(type(value), torch.Tensor):
            continue
        try:
            memory = _of_tensor(value)
        except (RuntimeError, NotImplementedError):
            continue  # A tensor without memory.
        if not memory.on_device and any(memory.start <= number < memory.end for number in numbers):
            found.append(memory)
    return found


class Copies:
    """Copies of host arrays in device memory, for one launch."""

    def __init__(self, extents: Iterable[Extent]) -> None:
        self._ranges: list[tuple[int, int, bool, _driver.Memory]] = []
        self._redirected: list[tuple[int, int, int]] = []
        host = sorted((one.start, one.end, one.writable) for one in extents if not one.on_device)
        merged: list[tuple[int, int, bool]] = []
        for start, end, writable in host:
            if merged and start < merged[-1][1]:
                first, last, before = merged[-1]
                merged[-1] = (first, max(last, end), before or writable)
            elif not merged or (start, end) != merged[-1][:2]:
                merged.append((start, end, writable))
        for start, end, writable in merged:
            memory = _driver.Memory(start % _ALIGN + end - start)
            _driver.write(memory.address + start % _ALIGN, start, end - start)
            self._ranges.append((start, end, writable, memory))

    def address(self, one: Extent) -> int:
        """The address that a kernel gets for an array."""
        if one.on_device:
            return one.address
        for start, end, _, memory in self._ranges:
            if start <= one.start and one.end <= end:
                return memory.address + start % _ALIGN + one.address - start
        raise LookupError("the array was not copied")

    def _on_device(self, address: int) -> int | None:
        for start, end, _, memory in self._ranges:
            if start <= address < end:
                return memory.address + start % _ALIGN + address - start
        return None

    def redirect(self, one: Extent) -> None:
        """Replaces, in the copy of an array, addresses of arrays by those of their copies."""
        for place, number in _addresses(one):
            target, at = self._on_device(number), self._on_device(place)
            if target is not None and at is not None:
                word = c_uint64(target)
                _driver.write(at, addressof(word), 8)
                self._redirected.append((place, number, target))

    def copy_back(self) -> None:
        """Copies what the kernel wrote to the host's arrays."""
        for start, end, writable, memory in self._ranges:
            if writable:
                _driver.read(start, memory.address + start % _ALIGN, end - start)
        for place, number, target in self._redirected:
            element = c_uint64.from_address(place)
            if element.value == target:
                element.value = number


class DeviceArray:
    """An array in device memory, with `__cuda_array_interface__`, for libraries that take one."""

    def __init__(self, array: Any) -> None:
        import numpy

        host = numpy.ascontiguousarray(array)
        self.shape: tuple[int, ...] = host.shape
        self.dtype = host.dtype
        self._memory = _driver.Memory(host.nbytes)
        _driver.write(self._memory.address, host.ctypes.data, host.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.address, False),
            "strides": None,
            "version": 3,
        }

    def data_ptr(self) -> int:
        """The address, for Triton."""
        return self._memory.address

    def copy_to_host(self) -> Any:
        """A numpy array with the contents."""
        import numpy

        host = numpy.empty(self.shape, self.dtype)
        _driver.read(host.ctypes.data, self._memory.address, host.nbytes)
        return host

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype})"


def to_device(array: Any) -> DeviceArray:
    """Copies an array to device memory."""
    return DeviceArray(array)
