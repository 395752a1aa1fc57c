"""`libwarpproof_attention`: its structs and calls, for tensors at addresses."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import byref, c_char_p, c_float, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path

_OWN = Path(__file__).parent / "_bin" / "libwarpproof_attention.so"

#: `wpa_version`.
_VERSION = 1

#: Types of Q, K and V, by PyTorch's names.
INPUTS = {"float8_e4m3fn": 0, "float8_e5m2": 1, "float16": 2, "bfloat16": 3}
#: Types of O.
OUTPUTS = {"float16": 0, "bfloat16": 1}
#: Which elements share a scale.
SCALES = {"head": 0, "block": 1}

_STATUS = {1: ValueError, 2: NotImplementedError, 3: RuntimeError, 4: RuntimeError}


class _Request(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("batch", c_uint32),
        ("heads", c_uint32),
        ("kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("queries", c_uint32),
        ("keys", c_uint32),
        ("input", c_uint32),
        ("scales", c_uint32),
        ("causal", c_uint32),
        ("lengths_on_device", c_uint32),
        ("lse", c_uint32),
        ("softmax_scale", c_float),
        ("output", c_uint32),
        ("smooth_keys", c_uint32),
        ("window", c_uint32),
        ("window_left", c_uint32),
        ("window_right", c_uint32),
        ("softcap", c_float),
        ("sinks", c_uint32),
        ("alibi", c_uint32),
        ("page_size", c_uint32),
    ]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_uint64), ("batch_stride", c_uint64), ("head_stride", c_uint64), ("row_stride", c_uint64)]


class _Arguments(ctypes.Structure):
    _fields_ = [
        ("size", c_uint64),
        ("q", _Tensor),
        ("k", _Tensor),
        ("v", _Tensor),
        ("o", _Tensor),
        ("q_scales", c_uint64),
        ("k_scales", c_uint64),
        ("v_scales", c_uint64),
        ("lse", c_uint64),
        ("query_starts", c_uint64),
        ("key_starts", c_uint64),
        ("workspace", c_uint64),
        ("workspace_bytes", c_uint64),
        ("sinks", c_uint64),
        ("slopes", c_uint64),
        ("pages", c_uint64),
        ("pages_per_sequence", c_uint64),
    ]


@dataclass(frozen=True)
class Request:
    """What is computed; the fields are those of `wpa_request`."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    queries: int
    keys: int
    input: str
    output: str
    scales: str
    softmax_scale: float
    causal: bool = False
    lengths_on_device: bool = False
    lse: bool = False
    smooth_keys: bool = False
    #: Keys before and after a query's own place; -1: all.
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    sinks: bool = False
    alibi: bool = False
    page_size: int = 0


@dataclass(frozen=True)
class Tensor:
    """An address, and strides of sequences, heads and rows in elements."""

    data: int
    strides: tuple[int, int, int]

    def _packed(self) -> _Tensor:
        return _Tensor(self.data, *self.strides)


@functools.cache
def library() -> ctypes.CDLL:
    """The library of the wheel; `WARPPROOF_ATTENTION_LIBRARY` names another."""
    file = Path(os.environ.get("WARPPROOF_ATTENTION_LIBRARY", _OWN))
    if not file.is_file():
        raise RuntimeError(f"{file} was not found; install the wheel of warpproof, or name the library with WARPPROOF_ATTENTION_LIBRARY")
    found = ctypes.CDLL(str(file))
    found.wpa_workspace_bytes.restype = c_size_t
    found.wpa_last_error.restype = c_char_p
    found.wpa_destroy.restype = None
    if found.wpa_version() != _VERSION:
        raise RuntimeError(f"{file} has version {found.wpa_version()} of the interface; this package needs {_VERSION}")
    return found


def _check(status: int) -> None:
    if status:
        text = library().wpa_last_error()
        raise _STATUS.get(status, RuntimeError)(text.decode() if text else f"status {status}")


class Prepared:
    """A request that is ready to run in the context that was current when it was made."""

    def __init__(self, request: Request) -> None:
        self._handle = c_void_p()
        left, right = request.window
        packed = _Request(
            ctypes.sizeof(_Request),
            request.batch,
            request.heads,
            request.kv_heads,
            request.head_dim,
            request.queries,
            request.keys,
            INPUTS[request.input],
            SCALES[request.scales],
            request.causal,
            request.lengths_on_device,
            request.lse,
            request.softmax_scale,
            OUTPUTS[request.output],
            request.smooth_keys,
            (left >= 0) | (right >= 0) << 1,
            max(left, 0),
            max(right, 0),
            request.softcap,
            request.sinks,
            request.alibi,
            request.page_size,
        )
        _check(library().wpa_create(byref(packed), byref(self._handle)))
        self.workspace: int = library().wpa_workspace_bytes(self._handle)

    def __del__(self) -> None:
        # At the end of the interpreter the module may be gone.
        if self._handle and library is not None:
            library().wpa_destroy(self._handle)

    def run(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        *,
        scales: tuple[int, int, int] = (0, 0, 0),
        lse: int = 0,
        starts: tuple[int, int] = (0, 0),
        sinks: int = 0,
        slopes: int = 0,
        pages: tuple[int, int] = (0, 0),
        workspace: int = 0,
        stream: int = 0,
    ) -> None:
        """Launches on a stream; all arguments are addresses in device memory."""
        arguments = _Arguments(
            ctypes.sizeof(_Arguments),
            q._packed(),
            k._packed(),
            v._packed(),
            o._packed(),
            *scales,
            lse,
            *starts,
            workspace,
            self.workspace,
            sinks,
            slopes,
            *pages,
        )
        _check(library().wpa_run(self._handle, byref(arguments), c_void_p(stream)))
