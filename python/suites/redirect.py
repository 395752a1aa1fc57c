"""Lets programs that ask PyTorch for a GPU have CPU tensors.

Every function of PyTorch that is given a CUDA device is given the CPU instead, and the questions of `torch.cuda` are answered as
for one GPU of the simulated kind. Kernels of PyTorch itself then run on the CPU, and kernels of Triton on the software GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from typing import Any

#: PyTorch, whose parts are replaced here: not typed.
torch: Any = importlib.import_module("torch")

#: The compute capability of the simulated device, an L4.
CAPABILITY = (8, 9)


def _device(value: Any) -> Any:
    """The CPU for a CUDA device, anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


class Redirect(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Replaces CUDA devices in the arguments of all functions of PyTorch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0]
        owner = getattr(func, "__self__", None)
        if name == "__get__" and getattr(owner, "__name__", "") == "is_cuda":
            return True
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if "device" in kwargs:
            kwargs["device"] = _device(kwargs["device"])
            # An index alone is a CUDA device as well.
            if isinstance(kwargs["device"], int):
                kwargs["device"] = "cpu"
        args = tuple(_device(value) if isinstance(value, (str, torch.device)) else value for value in args)
        if name == "Generator" or func is torch.Generator:
            return torch.Generator()
        return func(*args, **kwargs)


class _Nothing:
    """A stream, an event or a guard: all are done when they are made."""

    cuda_stream = 0
    device = torch.device("cpu")
    idx = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: 0


def _properties(*_: Any, **__: Any) -> Any:
    return types.SimpleNamespace(
        name="NVIDIA L4",
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=24 << 30,
        multi_processor_count=58,
        warp_size=32,
        max_threads_per_multi_processor=1536,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=99 << 10,
        shared_memory_per_multiprocessor=100 << 10,
        L2_cache_size=48 << 20,
        is_integrated=False,
        gcnArchName="",
    )


_MODE = Redirect()


def install() -> None:
    """Redirects PyTorch in this process."""
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda *_: None,
        "get_device_name": lambda *_: "NVIDIA L4",
        "get_device_capability": lambda *_: CAPABILITY,
        "get_device_properties": _properties,
        "is_bf16_supported": lambda *_, **__: True,
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "manual_seed": lambda seed: torch.default_generator.manual_seed(seed),
        "manual_seed_all": lambda seed: torch.default_generator.manual_seed(seed),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "current_stream": _Nothing,
        "default_stream": _Nothing,
        "Stream": _Nothing,
        "stream": _Nothing,
        "Event": _Nothing,
        "device": _Nothing,
        "device_of": _Nothing,
        "mem_get_info": lambda *_: (20 << 30, 24 << 30),
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "max_memory_reserved": lambda *_: 0,
        "reset_peak_memory_stats": lambda *_: None,
        "is_current_stream_capturing": lambda: False,
    }
    for name, value in answers.items():
        setattr(torch.cuda, name, value)
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.nn.Module.cuda = lambda self, *_, **__: self

    class Autocast(torch.autocast):  # type: ignore[misc]
        """`torch.autocast` on the CPU."""

        def __init__(self, device_type: str = "cuda", *arguments: Any, **options: Any) -> None:
            super().__init__("cpu" if device_type == "cuda" else device_type, *arguments, **options)

    torch.autocast = torch.amp.autocast = Autocast
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    torch.accelerator.is_available = lambda: True
    # PyTorch's compiler would make kernels for the CPU; the functions themselves are what is tested.
    torch.compile = lambda model=None, **_: model if model is not None else (lambda function: function)
    with contextlib.suppress(AttributeError):
        torch._C._cuda_getCurrentRawStream = lambda *_: 0
    _MODE.__enter__()
