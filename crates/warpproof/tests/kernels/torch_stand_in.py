"""Stands for torch in tests of the program that times its attention: the calls are there, and nothing is computed.

`flash` takes 8 µs a call and `math` 40; `efficient` refuses the shape, and `cudnn` gives a wrong answer.
"""

import os
import sys
import types

COST = {"flash": 8e-3, "math": 40e-3, "cudnn": 9e-3}


class Tensor:
    """Its one number stands for all of its elements."""

    def __init__(self, value=0.0, shape=(1, 1, 1, 1)):
        self.value, self.shape, self.device = value, shape, "cuda"

    def __sub__(self, other):
        return Tensor(self.value - other.value)

    def item(self):
        return abs(self.value)

    def like(self, *_, **__):
        return self

    __matmul__ = __mul__ = __invert__ = double = abs = max = tril = transpose = like
    repeat_interleave = masked_fill = softmax = zero_ = like


class Now:
    backend, clock, captured, replays = None, 0.0, None, 0


def attention(q, k, v, is_causal, scale, enable_gqa=False):
    if Now.backend == "efficient":
        raise RuntimeError("No available kernel. Aborting execution.\nhidden second line")
    if Now.captured is not None:
        Now.captured.append(COST[Now.backend])
    return Tensor(1.5 if Now.backend == "cudnn" else 1.0)


class Within:
    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Graph:
    def replay(self):
        Now.clock += sum(self.calls)


class Capture(Within):
    def __init__(self, graph):
        self.graph = graph

    def __enter__(self):
        Now.captured = self.graph.calls = []

    def __exit__(self, *_):
        Now.captured = None
        return False


class Backend(Within):
    def __init__(self, backend):
        Now.backend = backend


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Now.clock

    def elapsed_time(self, end):
        return end.at - self.at


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


__version__ = "0.stand-in"
float16, uint8, bool = "f16", "u8", "bool"
manual_seed = lambda seed: None
randn = lambda *shape, device, dtype: Tensor(1.0, shape)
ones = empty = lambda *shape, device, dtype: Tensor(1.0, shape)
cuda = module(
    "torch.cuda",
    is_available=lambda: os.environ["CUDA_VISIBLE_DEVICES"].startswith("GPU-"),
    get_device_name=lambda number: os.environ["STAND_IN_DEVICE"],
    synchronize=lambda: None,
    Stream=Within,
    stream=Within,
    CUDAGraph=Graph,
    graph=Capture,
    Event=Event,
)
backends = types.SimpleNamespace(
    FLASH_ATTENTION="flash", EFFICIENT_ATTENTION="efficient", MATH="math", CUDNN_ATTENTION="cudnn"
)
__path__ = []
nn = module("torch.nn", __path__=[])
module("torch.nn.attention", SDPBackend=backends, sdpa_kernel=Backend)
module("torch.nn.functional", scaled_dot_product_attention=attention)
