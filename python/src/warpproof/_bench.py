"""Times attention of this package and of PyTorch's backends; `warpproof bench attention` starts it.

Reads one JSON object, {"gpu": bool, "shapes": [[batch, heads, kv_heads, queries, keys, head_dim], …]}, and writes a line of JSON for each time.
On a CUDA device times are measured, in graphs of several calls, with a warm L2 cache. On the software GPU they are predicted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _driver
from ._library import activate
from .attention import attention

#: Calls in a graph, so that the event timer's resolution does not matter.
_CALLS = 20
#: Replays of the graph that are timed.
_SAMPLES = 30

Call = Callable[[], Any]


def main() -> None:
    asked = json.load(sys.stdin)
    gpu = bool(asked["gpu"])
    if gpu and not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device")
    if not gpu:
        activate(checks="none")
    _write({"device": torch.cuda.get_device_name() if gpu else "software GPU (L4)", "torch": torch.__version__, "cuda": torch.version.cuda})
    for shape in asked["shapes"]:
        for name, call in _programs(shape, gpu):
            line: dict[str, Any] = {"shape": shape, "program": name, "kind": "measured" if gpu else "predicted"}
            try:
                line["us"] = _measured(call) if gpu else [_predicted(call)]
            except Exception as error:  # a backend that does not take the shape is a line of the table
                line["error"] = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            _write(line)


def _write(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def _programs(shape: list[int], gpu: bool) -> Iterator[tuple[str, Call]]:
    """The programs by name."""
    batch, heads, kv_heads, queries, keys, dim = shape
    device = "cuda" if gpu else "cpu"
    torch.manual_seed(0)
    q = torch.randn(batch, heads, queries, dim, dtype=torch.bfloat16, device=device)
    k, v = (torch.randn(batch, kv_heads, keys, dim, dtype=torch.bfloat16, device=device) for _ in range(2))
    codes = [one.to(torch.float8_e4m3fn) for one in (q, k, v)]
    ones = [torch.ones(batch, one.shape[1], device=device) for one in codes]
    scales = dict(zip(("q_scale", "k_scale", "v_scale"), ones))
    yield "warpproof, e4m3", lambda: attention(*codes, **scales)
    yield "warpproof, bf16 quantized", lambda: attention(q, k, v)
    if gpu:
        backends = torch.nn.attention.SDPBackend
        for name, backend in (
            ("PyTorch flash", backends.FLASH_ATTENTION),
            ("PyTorch efficient", backends.EFFICIENT_ATTENTION),
            ("PyTorch cuDNN", backends.CUDNN_ATTENTION),
            ("PyTorch math", backends.MATH),
        ):
            yield name, _backend(backend, q, k, v)


def _backend(backend: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
    def call() -> Any:
        with torch.nn.attention.sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])

    return call


def _measured(call: Call) -> list[float]:
    """Microseconds of one call, for each replay of a graph of several calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_CALLS):
            call()
    graph.replay()
    samples = []
    for _ in range(_SAMPLES):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) * 1000 / _CALLS)
    return samples


def _predicted(call: Call) -> float:
    """Microseconds of the launches of one call, by the driver's model."""
    start, end = _driver.Event(), _driver.Event()
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000


if __name__ == "__main__":
    main()
