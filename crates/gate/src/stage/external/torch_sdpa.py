"""Times scaled_dot_product_attention of PyTorch, each of its backends on its own, on the first CUDA device
that it is let see.

The request is one line of JSON on the standard input; each shape and backend gets one line of answer, with its times or with the
reason for which there are none. Untested on hardware: the tests run it with a stand-in for torch.
"""

import json
import sys

FLUSH_BYTES = 256 << 20  # More than the second-level cache of any device.
BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
    "cudnn": "CUDNN_ATTENTION",
}


def say(**answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def tensors(torch, shape, seed):
    torch.manual_seed(seed)
    b, h, kv, s, keys, d = (shape[axis] for axis in ("b", "h", "kv", "s", "keys", "d"))
    extents = [(b, h, s, d), (b, kv, keys, d), (b, kv, keys, d)]
    return [torch.randn(*extent, device="cuda", dtype=torch.float16) for extent in extents]


def reference(torch, q, k, v, shape):
    """The definition, in f64, and how far off a kernel in f16 may be.

    Scores, weights and outputs are rounded to f16 once each at most. A score that is off by a share of itself moves every weight, and
    their sum, by as much as it is large.
    """
    q, k, v = (one.double() for one in (q, k, v))
    groups = shape["h"] // shape["kv"]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-2, -1) * shape["scale"]
    limit = (2 * scores.abs().max().item() + 2) * 2.0**-11 * v.abs().max().item()
    if shape["causal"]:
        rows, columns = scores.shape[-2:]
        seen = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ v, limit


def timed(torch, shape, backend, request):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if shape["causal"] and shape["s"] != shape["keys"]:
        raise RuntimeError("torch aligns a causal mask at the top left if lengths differ")
    q, k, v = tensors(torch, shape, request["seed"])
    settings = {"is_causal": shape["causal"], "scale": shape["scale"]}
    if shape["h"] != shape["kv"]:
        settings["enable_gqa"] = True

    def call():
        return scaled_dot_product_attention(q, k, v, **settings)

    with sdpa_kernel(getattr(SDPBackend, BACKENDS[backend])):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                output = call()
        torch.cuda.synchronize()
        right, limit = reference(torch, q, k, v, shape)
        error = (output.double() - right).abs().max().item()
        if not error <= limit:
            raise RuntimeError("its output is off by %g; rounding explains at most %g" % (error, limit))
        # One graph, like our own launches, so that the time does not include the host's cost of a call.
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(request["launches"]):
                call()
        flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        times = []
        for _ in range(request["samples"]):
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            flush.zero_()
            graph.replay()
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / request["launches"])
    return times, error


def main():
    request = json.loads(sys.stdin.readline())
    why = None
    try:
        import torch

        if not torch.cuda.is_available():
            why = "torch %s sees no CUDA device" % torch.__version__
    except Exception as error:  # A package that cannot be loaded fails in many ways.
        why = "torch is not installed: %s" % error
    if why is None:
        say(torch=torch.__version__, device=torch.cuda.get_device_name(0))
    for shape in request["shapes"]:
        for backend in BACKENDS:
            answer = {"shape": shape["name"], "backend": backend}
            if why is not None:
                say(skipped=why, **answer)
                continue
            try:
                times, error = timed(torch, shape, backend, request)
                say(us=times, error=error, **answer)
            except Exception as error:  # A backend that does not support the shape raises an exception.
                first = str(error).strip().splitlines()
                say(skipped=first[0] if first else type(error).__name__, **answer)


main()
