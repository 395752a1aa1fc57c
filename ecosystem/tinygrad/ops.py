"""Operators of tinygrad on its CUDA backend, compared with its CPU backend.

Every case runs forward, and backward where it has a gradient, in float32, float16 and bfloat16. Both backends get the same
inputs. They may add in another order and use another exp2, so results differ by roundings: a case states how many roundings
of single values stand between input and output (`depth`), and how many of sums (`sums`). The limit is that number of units
in the last place, at the size of the largest value of the result. Sums are float32 for every dtype. The summands
may have been rounded to the dtype before; these errors are independent, so together they are at most four units.
"""
import json
import math
import os
import sys
import time

import numpy as np
from tinygrad import Context, Tensor, dtypes

# A unit in the last place at 1.
ULP = {dtypes.float32: 2.0**-23, dtypes.float16: 2.0**-10, dtypes.bfloat16: 2.0**-7}
FLOATS = [dtypes.float32, dtypes.float16, dtypes.bfloat16]

CASES = []


def case(name, function, *shapes, low=-2.0, high=2.0, depth=8, sums=0, grad=True, floats=FLOATS):
    """A case: a function of tensors of these shapes, with values between two limits."""
    CASES.append((name, function, shapes, low, high, (depth, sums), grad, floats))


def limit(dtype, depth, sums):
    """The largest allowed difference of results, for a largest value of 1."""
    if dtype == dtypes.float32 or not sums:
        return (depth + sums) * ULP[dtype]
    return (depth + 4) * ULP[dtype] + sums * ULP[dtypes.float32]


S = (5, 33)

# Of one tensor, each element by itself.
case("neg", lambda x: -x, S, depth=1)
case("relu", lambda x: x.relu(), S, depth=1)
case("relu6", lambda x: (x * 4).relu6(), S)
case("leaky_relu", lambda x: x.leaky_relu(0.1), S)
case("sigmoid", lambda x: x.sigmoid(), S, depth=16)
case("hardsigmoid", lambda x: (x * 3).hardsigmoid(), S)
case("tanh", lambda x: x.tanh(), S, depth=24)
case("hardtanh", lambda x: x.hardtanh(), S)
case("gelu", lambda x: x.gelu(), S, depth=48)
case("quick_gelu", lambda x: x.quick_gelu(), S, depth=24)
case("silu", lambda x: x.silu(), S, depth=24)
case("mish", lambda x: x.mish(), S, depth=64)
case("softplus", lambda x: x.softplus(), S, depth=24)
case("softsign", lambda x: x.softsign(), S)
case("elu", lambda x: x.elu(), S, depth=16)
case("celu", lambda x: x.celu(), S, depth=16)
case("selu", lambda x: x.selu(), S, depth=16)
case("hardswish", lambda x: (x * 3).hardswish(), S, depth=16)
case("logsigmoid", lambda x: x.logsigmoid(), S, depth=24)
case("exp", lambda x: x.exp(), S)
case("exp2", lambda x: x.exp2(), S)
case("log", lambda x: x.log(), S, low=0.2, high=4)
case("log2", lambda x: x.log2(), S, low=0.2, high=4)
case("log10", lambda x: x.log10(), S, low=0.2, high=4)
case("sin", lambda x: x.sin(), S, depth=16)
case("cos", lambda x: x.cos(), S, depth=16)
case("tan", lambda x: (x * 0.5).tan(), S, depth=48)
case("asin", lambda x: (x * 0.4).asin(), S, depth=64)
case("acos", lambda x: (x * 0.4).acos(), S, depth=64)
case("atan", lambda x: x.atan(), S, depth=64)
case("sinh", lambda x: x.sinh(), S, depth=24)
case("cosh", lambda x: x.cosh(), S, depth=24)
case("asinh", lambda x: x.asinh(), S, depth=64)
case("acosh", lambda x: x.acosh(), S, low=1.5, high=4, depth=64)
case("atanh", lambda x: (x * 0.4).atanh(), S, depth=64)
case("erf", lambda x: x.erf(), S, depth=48)
case("sqrt", lambda x: x.sqrt(), S, low=0.2, high=4)
case("rsqrt", lambda x: x.rsqrt(), S, low=0.2, high=4)
case("reciprocal", lambda x: x.reciprocal(), S, low=0.5, high=4)
case("square", lambda x: x.square(), S)
case("abs", lambda x: x.abs(), S, depth=1)
case("sign", lambda x: x.sign(), S, depth=1)
case("floor", lambda x: (x * 4).floor(), S, grad=False)
case("ceil", lambda x: (x * 4).ceil(), S, grad=False)
case("round", lambda x: (x * 4).round(), S, grad=False)
case("trunc", lambda x: (x * 4).trunc(), S, grad=False)
case("clip", lambda x: x.clip(-1, 1), S, depth=1)
case("isnan", lambda x: (x.log()).isnan(), S, grad=False)
case("isinf", lambda x: (x / 0).isinf(), S, grad=False)
case("logical_not", lambda x: (x > 0).logical_not(), S, grad=False)

# Of two tensors, with and without broadcasting.
case("add", lambda x, y: x + y, S, S, depth=1)
case("add_row", lambda x, y: x + y, S, (33,), depth=2, sums=8)
case("add_column", lambda x, y: x + y, S, (5, 1), depth=2, sums=40)
case("add_scalar", lambda x: x + 1.5, S, depth=1)
case("sub", lambda x, y: x - y, S, S, depth=1)
case("sub_scalar", lambda x: 1.5 - x, S, depth=1)
case("mul", lambda x, y: x * y, S, S, depth=2)
case("mul_outer", lambda x, y: x * y, (7, 1), (1, 9), depth=2, sums=16)
case("div", lambda x, y: x / y, S, S, low=0.5, high=3)
case("div_scalar", lambda x: x / 3, S)
case("pow", lambda x, y: x.pow(y), S, S, low=0.5, high=2, depth=48)
case("pow_integer", lambda x: x.pow(3), S)
case("pow_half", lambda x: x.pow(0.5), S, low=0.3, high=3, depth=16)
case("maximum", lambda x, y: x.maximum(y), S, S, depth=2)
case("minimum", lambda x, y: x.minimum(y), S, S, depth=2)
case("less", lambda x, y: x < y, S, S, grad=False)
case("less_equal", lambda x, y: x <= y, S, S, grad=False)
case("greater", lambda x, y: x > y, S, S, grad=False)
case("equal", lambda x, y: x.round() == y.round(), S, S, grad=False)
case("not_equal", lambda x, y: x.round() != y.round(), S, S, grad=False)
case("where", lambda x, y: (x > y).where(x, y), S, S, depth=2)
case("lerp", lambda x, y: x.lerp(y, 0.3), S, S)
case("atan2_like", lambda x, y: (x / (y.abs() + 1)).atan(), S, S, depth=64)
case("fused", lambda x, y: ((x * y + x).relu() - y).sigmoid(), S, S, depth=24)

# Reductions.
R = (6, 40)
case("sum", lambda x: x.sum(), R, depth=2, sums=240)
case("sum_rows", lambda x: x.sum(axis=1), R, depth=2, sums=40)
case("sum_columns", lambda x: x.sum(axis=0), R, depth=2, sums=8)
case("sum_keep", lambda x: x.sum(axis=-1, keepdim=True), R, depth=2, sums=40)
case("sum_large", lambda x: x.sum(), (64, 70), depth=2, sums=4480)
case("sum_middle", lambda x: x.sum(axis=1), (3, 17, 5), depth=2, sums=17)
case("mean", lambda x: x.mean(), R, depth=4, sums=240)
case("mean_rows", lambda x: x.mean(axis=1), R, depth=4, sums=40)
case("max", lambda x: x.max(), R, depth=2)
case("max_rows", lambda x: x.max(axis=1), R, depth=2)
case("min", lambda x: x.min(), R, depth=2)
case("min_columns", lambda x: x.min(axis=0), R, depth=2)
case("prod", lambda x: x.prod(axis=1), (6, 8), low=0.7, high=1.4, depth=10, sums=24)
case("var", lambda x: x.var(), R, depth=8, sums=480)
case("var_rows", lambda x: x.var(axis=1), R, depth=8, sums=80)
case("std_rows", lambda x: x.std(axis=1), R, depth=12, sums=80)
case("argmax", lambda x: x.argmax(axis=1), R, grad=False)
case("argmin", lambda x: x.argmin(axis=0), R, grad=False)
case("any", lambda x: (x > 1.9).any(axis=1), R, grad=False)
case("all", lambda x: (x > -1.9).all(axis=1), R, grad=False)
case("logsumexp", lambda x: x.logsumexp(axis=1), R, depth=12, sums=80)
case("softmax", lambda x: x.softmax(axis=-1), R, depth=16, sums=40)
case("softmax_columns", lambda x: x.softmax(axis=0), R, depth=16, sums=16)
case("log_softmax", lambda x: x.log_softmax(axis=-1), R, depth=16, sums=80)
case("cumsum", lambda x: x.cumsum(axis=1), R, depth=4, sums=80)
case("cumprod", lambda x: x.cumprod(axis=1), (4, 7), low=0.7, high=1.4, depth=16, sums=48)
case("cummax", lambda x: x.cummax(axis=1)[0], R, grad=False)
case("norm", lambda x: x.square().sum(axis=1).sqrt(), R, depth=8, sums=40)
case("sort", lambda x: x.sort(dim=1)[0], (3, 16), grad=False)
case("topk", lambda x: x.topk(4, dim=1)[0], (3, 16), grad=False)

# Matrix products.
case("dot_vector", lambda x, y: x.dot(y), (40,), (40,), depth=2, sums=80)
case("matmul", lambda x, y: x @ y, (8, 40), (40, 12), depth=2, sums=80)
case("matmul_square", lambda x, y: x @ y, (64, 64), (64, 64), depth=2, sums=128)
case("matmul_odd", lambda x, y: x @ y, (13, 29), (29, 17), depth=2, sums=64)
case("matmul_vector", lambda x, y: x @ y, (16, 24), (24,), depth=2, sums=48)
case("matmul_batch", lambda x, y: x @ y, (3, 8, 16), (3, 16, 8), depth=2, sums=32)
case("matmul_broadcast", lambda x, y: x @ y, (3, 8, 16), (16, 8), depth=2, sums=64)
case("matmul_transposed", lambda x, y: x @ y.transpose(), (16, 32), (24, 32), depth=2, sums=64)
case("linear", lambda x, w, b: x.linear(w, b), (8, 32), (32, 16), (16,), depth=4, sums=64)
case("einsum", lambda x, y: Tensor.einsum("ij,kj->ik", x, y), (9, 16), (7, 16), depth=2, sums=32)
case("outer", lambda x, y: x.reshape(-1, 1) @ y.reshape(1, -1), (9,), (11,), depth=2, sums=16)
case("attention", lambda q, k, v: q.scaled_dot_product_attention(k, v), (2, 12, 16), (2, 12, 16), (2, 12, 16), depth=24, sums=64)
case("attention_causal", lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
     (2, 12, 16), (2, 12, 16), (2, 12, 16), depth=24, sums=64)

# Convolutions and pooling.
C = (2, 3, 10, 10)
case("conv2d", lambda x, w: x.conv2d(w), C, (4, 3, 3, 3), depth=2, sums=256)
case("conv2d_bias", lambda x, w, b: x.conv2d(w, b), C, (4, 3, 3, 3), (4,), depth=4, sums=256)
case("conv2d_padding", lambda x, w: x.conv2d(w, padding=1), C, (4, 3, 3, 3), depth=2, sums=256)
case("conv2d_stride", lambda x, w: x.conv2d(w, stride=2), C, (4, 3, 3, 3), depth=2, sums=128)
case("conv2d_dilation", lambda x, w: x.conv2d(w, dilation=2), C, (4, 3, 3, 3), depth=2, sums=128)
case("conv2d_groups", lambda x, w: x.conv2d(w, groups=3), C, (6, 1, 3, 3), depth=2, sums=256)
case("conv2d_1x1", lambda x, w: x.conv2d(w), C, (4, 3, 1, 1), depth=2, sums=256)
case("conv1d", lambda x, w: x.conv2d(w), (2, 3, 20), (4, 3, 5), depth=2, sums=128)
case("conv_transpose2d", lambda x, w: x.conv_transpose2d(w), (2, 3, 6, 6), (3, 4, 3, 3), depth=2, sums=256)
case("avg_pool2d", lambda x: x.avg_pool2d(), C, depth=4, sums=16)
case("avg_pool2d_3", lambda x: x.avg_pool2d(kernel_size=(3, 3), stride=1), C, depth=4, sums=32)
case("max_pool2d", lambda x: x.max_pool2d(), C, depth=4)
case("max_pool2d_3", lambda x: x.max_pool2d(kernel_size=(3, 3), stride=2), C, depth=2, sums=16)
case("interpolate", lambda x: x.interpolate((15, 15)), (1, 2, 7, 7), depth=16, sums=16)

# Normalization and losses.
case("layernorm", lambda x: x.layernorm(), R, depth=16, sums=160)
case("layernorm_affine", lambda x, w, b: x.layernorm() * w + b, R, (40,), (40,), depth=20, sums=160)
case("rmsnorm", lambda x: x * (x.square().mean(axis=-1, keepdim=True) + 1e-5).rsqrt(), R, depth=16, sums=160)
case("batchnorm", lambda x, w, b: x.batchnorm(w, b, x.mean(axis=(0, 2, 3)), (x.var(axis=(0, 2, 3)) + 1e-5).rsqrt()),
     C, (3,), (3,), depth=24, sums=800)
case("dropout_none", lambda x: x.dropout(0.0), S, depth=1)
case("mse", lambda x, y: (x - y).square().mean(), R, R, depth=6, sums=480)
case("cross_entropy", lambda x: x.sparse_categorical_crossentropy(Tensor([1, 0, 3, 2, 4, 1], device=x.device)), (6, 8), depth=16, sums=48)
case("binary_cross_entropy", lambda x, y: x.sigmoid().binary_crossentropy(y.sigmoid()), (6, 8), (6, 8), depth=48, sums=96)

# Movement: nothing is computed, so forward results are equal; gradients are sums.
M = (4, 6, 5)
case("reshape", lambda x: x.reshape(8, 15), M, depth=0)
case("flatten", lambda x: x.flatten(), M, depth=0)
case("permute", lambda x: x.permute(2, 0, 1), M, depth=0)
case("transpose", lambda x: x.transpose(0, 2), M, depth=0)
case("expand", lambda x: x.reshape(4, 1, 6, 5).expand(4, 3, 6, 5), M, depth=1, sums=4)
case("shrink", lambda x: x.shrink(((1, 3), (0, 4), (2, 5))), M, depth=0)
case("pad", lambda x: x.pad(((1, 1), (0, 2), (3, 0))), M, depth=0)
case("pad_value", lambda x: x.pad(((1, 1), (0, 2), (3, 0)), value=2.0), M, depth=0)
case("flip", lambda x: x.flip(1), M, depth=0)
case("slice", lambda x: x[1:3, ::2, -2:], M, depth=0)
case("stride_back", lambda x: x[:, ::-1], M, depth=0)
case("index", lambda x: x[2], M, depth=0)
case("index_tensor", lambda x: x[Tensor([3, 0, 1], device=x.device)], M, depth=1, sums=8)
case("gather", lambda x: x.gather(1, Tensor([[0, 3], [1, 1], [2, 0], [5, 4]], device=x.device)), (4, 6), depth=1, sums=16)
case("masked", lambda x: x.masked_fill(x > 0, 0.25), M, depth=0)
case("cat", lambda x, y: x.cat(y, dim=1), M, (4, 2, 5), depth=0)
case("stack", lambda x, y: x.stack(y), M, M, depth=0)
case("split", lambda x: x.split(2, dim=1)[1], M, depth=0)
case("chunk", lambda x: x.chunk(3, dim=1)[2], M, depth=0)
case("repeat", lambda x: x.repeat((2, 1, 3)), M, depth=1, sums=8)
case("roll", lambda x: x.roll(2, dims=1), M, depth=0)
case("tril", lambda x: x.tril(), (7, 9), depth=0)
case("triu", lambda x: x.triu(1), (7, 9), depth=0)
case("squeeze", lambda x: x.reshape(4, 1, 30).squeeze(1), M, depth=0)
case("unsqueeze", lambda x: x.unsqueeze(2), M, depth=0)
case("unfold", lambda x: x.unfold(1, 3, 2), M, depth=1, sums=8)
case("one_hot", lambda x: (x * 2).abs().cast(dtypes.int32).one_hot(5), (4, 6), grad=False)
case("arange", lambda x: x + Tensor.arange(5).to(x.device), M, depth=1)
case("eye", lambda x: x @ Tensor.eye(5, dtype=x.dtype).to(x.device), M, depth=1, sums=16)

# Casts and integers, which are exact.
case("cast_int", lambda x: (x * 8).cast(dtypes.int32), S, grad=False)
case("cast_uchar", lambda x: (x.abs() * 32).cast(dtypes.uint8), S, grad=False)
case("cast_half", lambda x: x.cast(dtypes.float16), S, depth=1)
case("cast_float", lambda x: x.cast(dtypes.float32), S, depth=1)
case("cast_bool", lambda x: x.relu().cast(dtypes.bool), S, grad=False)


def integers(x):
    """The tensor as whole numbers from 0 to 128. The product is exact, so that a cast cannot depend on how it is rounded."""
    return (x.abs() * 64).cast(dtypes.int32)


case("int_add", lambda x, y: integers(x) + integers(y), S, S, grad=False)
case("int_mul", lambda x, y: integers(x) * integers(y), S, S, grad=False)
case("int_div", lambda x, y: integers(x) // (integers(y) + 1), S, S, grad=False)
case("int_mod", lambda x, y: integers(x) % (integers(y) + 1), S, S, grad=False)
case("int_and", lambda x, y: integers(x) & integers(y), S, S, grad=False)
case("int_or", lambda x, y: integers(x) | integers(y), S, S, grad=False)
case("int_xor", lambda x, y: integers(x) ^ integers(y), S, S, grad=False)
case("int_shift_left", lambda x: integers(x) << 3, S, grad=False)
case("int_shift_right", lambda x: integers(x) >> 2, S, grad=False)
case("int_sum", lambda x: integers(x).sum(axis=1), S, grad=False)
case("int_max", lambda x: integers(x).max(axis=1), S, grad=False)
case("int_cumsum", lambda x: integers(x).cumsum(axis=1), S, grad=False)


def run(function, arrays, dtype, device, grad):
    """The result, and optionally the gradients."""
    inputs = [Tensor(array, device=device).cast(dtype).realize() for array in arrays]
    out = function(*inputs)
    gradients = []
    if grad:
        weights = Tensor(np.cos(np.arange(math.prod(out.shape))).reshape(out.shape).astype(np.float32), device=device)
        (out.float() * weights).sum().backward()
        gradients = [tensor.grad for tensor in inputs if tensor.grad is not None]
    results = [out] + gradients
    return [(t.float() if t.dtype == dtypes.bfloat16 else t).numpy() for t in results]


def difference(got, want, at_most):
    """The error, or None."""
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if want.dtype.kind != "f":
        wrong = np.flatnonzero(got != want)
        return None if wrong.size == 0 else f"{wrong.size} of {want.size} differ"
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return "NaN in other places"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)]):
        return "infinities in other places"
    if not finite.any():
        return None
    size = max(1.0, float(np.abs(want[finite]).max()))
    error = float(np.abs(got[finite] - want[finite]).max())
    return None if error <= at_most * size else f"error {error:.3g}, at most {at_most * size:.3g}"


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    part, parts = (int(word) for word in os.environ.get("OPS_PART", "1/1").split("/"))
    mine = [(index, entry) for index, entry in enumerate(CASES) if index % parts == part - 1]
    chosen = [(index, entry, dtype) for index, entry in mine if only in entry[0] for dtype in entry[-1]]
    state = {"next": 0, "forward": 0, "backward": 0, "failed": 0, "start": time.time()}
    state.update(json.loads(os.environ.get("OPS_STATE", "{}")))
    while state["next"] < len(chosen):
        index, (name, function, shapes, low, high, (depth, sums), grad, _), dtype = chosen[state["next"]]
        state["next"] += 1
        generator = np.random.default_rng(index)
        arrays = [generator.uniform(low, high, shape).astype(np.float32) for shape in shapes]
        label = f"{name} {dtype}".replace("dtypes.", "")
        try:
            got = run(function, arrays, dtype, "CUDA", grad)
            # As plain loops: unrolled, the emulated bfloat16 of the CPU takes clang gigabytes.
            with Context(NOOPT=1):
                want = run(function, arrays, dtype, "CPU", grad)
        except Exception as error:  # One case must not hide the others.
            state["failed"] += 1
            lines = str(error).strip().splitlines() or [""]
            print(f"FAILED {label}: {type(error).__name__}: {lines[0]}", flush=True)
            if "CUDA Error" in str(error):
                # A fault stays with the process, as it does on a GPU: the rest needs a new one.
                os.environ["OPS_STATE"] = json.dumps(state)
                os.execv(sys.executable, [sys.executable, *sys.argv])
            continue
        state["forward"] += 1
        state["backward"] += 1 if len(want) > 1 else 0
        # A gradient passes the same operations once more, and the sum that it is the gradient of.
        limits = [limit(dtype, depth, sums)] + [limit(dtype, 2 * depth + 2, 2 * sums)] * (len(want) - 1)
        problems = [difference(*both) for both in zip(got, want, limits)]
        if len(got) != len(want):
            problems.append("another number of gradients")
        problems = [f"{'forward' if i == 0 else f'gradient {i}'}: {p}" for i, p in enumerate(problems) if p]
        if problems:
            state["failed"] += 1
            print(f"FAILED {label}: {'; '.join(problems)}", flush=True)
    operators = len({index for index, _, _ in chosen})
    print(f"{len(chosen)} cases of {operators} operators ({state['forward']} ran forward, {state['backward']} also backward), "
          f"{state['failed']} failed, {time.time() - state['start']:.0f} s")
    return 1 if state["failed"] or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
