"""FP8 attention for Ada (L4), for PyTorch.

>>> from warpproof.attention import scaled_dot_product_attention
>>> o = scaled_dot_product_attention(q, k, v, is_causal=True)   # f16 or bf16, [batch, heads, rows, head_dim]

Q, K and V are quantized to e4m3 on the device, and both products are computed in FP8. The operators are `torch.ops.warpproof.attention`,
`torch.ops.warpproof.attention_varlen` and `torch.ops.warpproof.attention_paged`; `torch.compile` treats each as one node. They have no gradient.

CUDA tensors are computed on their device, on the current stream. CPU tensors are computed on Warpproof's software GPU, which checks the
kernels, and is slow: use them for tests.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from . import _driver
from ._arrays import Copies, extent
from ._attention import INPUTS, OUTPUTS, Prepared, Request, Tensor
from ._library import activate

#: Head dimensions that the kernels take.
_DIMS = (64, 96, 128, 256)

__all__ = ["attention", "attention_paged", "attention_varlen", "scaled_dot_product_attention", "unsupported"]


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    scales: str = "block",
    smooth_keys: bool = True,
    out_dtype: torch.dtype | None = None,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale · q kᵀ) v.

    q, k, v: [batch, heads, rows, head_dim]. float16 or bfloat16 values, or float8 codes with their scales. Heads of q may be a multiple of
        those of k and v.
    causal: query i sees keys up to i + keys - queries.
    scale: factor of the scores [default: 1/sqrt(head_dim)].
    q_scale, k_scale, v_scale: of codes, float32: [batch, heads], or [batch, heads, blocks of 64 rows].
    scales: how values are quantized: with one scale for each `head`, or for each `block` of 64 rows.
    smooth_keys: of values: subtract the mean of each channel of K first, which makes its codes more precise. Not used with softcap and sinks,
        which depend on the scores themselves.
    out_dtype: float16 or bfloat16 [default: that of q; float16 for codes].
    window: how many keys before and after its own place a query sees; -1: all. The place of query i is key i + keys - queries. Only windows
        before it are supported.
    softcap: not 0: scores become softcap · tanh(score / softcap).
    sinks: float32 [heads]: a logit of each head that joins the sum of the softmax, without a value.
    alibi_slopes: float32 [heads]: the slope times the distance of key and query is subtracted from each score.
        window, softcap, sinks and alibi_slopes need causal=True and scales="block".
    return_lse: also return the log-sum-exp of each row, float32 [batch, heads, rows].
    """
    empty = torch.empty(0, device=q.device)
    out, lse = torch.ops.warpproof.attention(
        q,
        k,
        v,
        *(empty if one is None else one for one in (q_scale, k_scale, v_scale)),
        causal,
        0.0 if scale is None else scale,
        scales,
        smooth_keys,
        _output(q, out_dtype),
        *window,
        softcap,
        empty if sinks is None else sinks,
        empty if alibi_slopes is None else alibi_slopes,
        return_lse,
    )
    return (out, lse) if return_lse else out


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    scales: str = "block",
    smooth_keys: bool = True,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of sequences of different lengths: the output, and the log-sum-exp [batch, heads, max_seqlen_q].

    q, k, v: [rows of all sequences, heads, head_dim], float16 or bfloat16.
    cu_seqlens_q, cu_seqlens_k: int32 [batch + 1]: rows before each sequence, and all rows.
    The log-sum-exp behind the end of a sequence is 0. The other arguments are those of `attention`.
    """
    empty = torch.empty(0, device=q.device)
    return torch.ops.warpproof.attention_varlen(  # type: ignore[no-any-return]
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        causal,
        0.0 if scale is None else scale,
        scales,
        smooth_keys,
        *window,
        softcap,
        empty if sinks is None else sinks,
        empty if alibi_slopes is None else alibi_slopes,
    )


def attention_paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention over an FP8 cache of keys and values in pages: the output, and the log-sum-exp [batch, heads, max_seqlen_q].

    q: [rows of all sequences, heads, head_dim], float16 or bfloat16; it is quantized here.
    k_cache, v_cache: float8_e4m3fn [pages, page size, heads, head_dim]; pages have 64, 128 or 256 keys.
    k_scale, v_scale: float32 [pages, heads, page size / 64], one for each block of 64 keys; or [batch, heads], one for each sequence and head.
    block_table: int32 [batch, pages of the longest sequence]: the pages of each sequence, in the order of its keys.
    cu_seqlens_q, cu_seqlens_k: int32 [batch + 1]: rows before each sequence, and all rows. Query i of a sequence sees the keys up to i + keys - queries.
    """
    return torch.ops.warpproof.attention_paged(  # type: ignore[no-any-return]
        q,
        k_cache,
        v_cache,
        k_scale,
        v_scale,
        block_table,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        0.0 if scale is None else scale,
    )


def unsupported(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    enable_gqa: bool = False,
) -> str | None:
    """Why `scaled_dot_product_attention` uses PyTorch's own for these arguments; `None` if it does not."""
    if attn_mask is not None:
        return "attn_mask"
    if dropout_p:
        return "dropout"
    if torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value)):
        return "gradients"
    if any(one.dim() != 4 for one in (query, key, value)):
        return "tensors without four dimensions"
    if any(str(one.dtype).removeprefix("torch.") not in OUTPUTS or one.dtype != query.dtype for one in (query, key, value)):
        return "dtypes other than float16 and bfloat16"
    if query.shape[-1] not in _DIMS or key.shape[-1] != query.shape[-1] or value.shape[-1] != query.shape[-1]:
        return f"head dimensions other than {_DIMS}"
    if 0 in query.shape or 0 in key.shape:
        return "empty tensors"
    if query.shape[1] != key.shape[1] and not enable_gqa:
        return "heads that are shared without enable_gqa"
    if is_causal and query.shape[2] != key.shape[2]:
        # PyTorch aligns the mask at the first key, the kernels at the last.
        return "is_causal with different numbers of queries and keys"
    return None


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """As `torch.nn.functional.scaled_dot_product_attention`, which computes what is not supported; see `unsupported`."""
    if unsupported(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa) is None:
        computed = attention(query, key, value, causal=is_causal, scale=scale)
        assert isinstance(computed, torch.Tensor)
        return computed
    own: Any = torch.nn.functional.scaled_dot_product_attention
    result: torch.Tensor = own(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
    return result


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _output(q: torch.Tensor, dtype: torch.dtype | None) -> str:
    if dtype is not None:
        return _name(dtype)
    return _name(q.dtype) if _name(q.dtype) in OUTPUTS else "float16"


@functools.lru_cache(maxsize=1024)
def _prepared(request: Request, device: str) -> Prepared:
    """One for each request and device."""
    return Prepared(request)


class _Device:
    """The device of a run: where its tensors are, and in which stream it runs."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.name = str(tensors[0].device)
        self.stream = 0
        if any(one.device != tensors[0].device for one in tensors):
            raise ValueError("expected all tensors on one device, found " + ", ".join(str(one.device) for one in tensors))

    def address(self, tensor: torch.Tensor) -> int:
        return tensor.data_ptr() if tensor.numel() else 0

    def workspace(self, size: int) -> int:
        raise NotImplementedError


class _Cuda(_Device):
    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__(tensors)
        self._where = tensors[0].device
        self.stream = torch.cuda.current_stream(self._where).cuda_stream

    def workspace(self, size: int) -> int:
        # PyTorch's allocator keeps it until the stream has executed what was launched before it was freed.
        self._memory = torch.empty(size, dtype=torch.uint8, device=self._where)
        return self._memory.data_ptr()


class _Software(_Device):
    """The software GPU: tensors are copied to it, and back."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__(tensors)
        activate()
        _driver.ready()
        self._extents = {id(one): extent(one) for one in tensors if one.numel()}
        self._copies = Copies(one for one in self._extents.values() if one is not None)

    def address(self, tensor: torch.Tensor) -> int:
        found = self._extents.get(id(tensor))
        return self._copies.address(found) if found is not None else 0

    def workspace(self, size: int) -> int:
        self._memory = _driver.Memory(size)
        return self._memory.address

    def end(self) -> None:
        _driver.synchronize()
        self._copies.copy_back()


@contextlib.contextmanager
def _device(tensors: list[torch.Tensor]) -> Iterator[_Device]:
    if tensors[0].device.type == "cuda":
        with torch.cuda.device(tensors[0].device):
            yield _Cuda(tensors)
    elif tensors[0].device.type == "cpu":
        device = _Software(tensors)
        yield device
        device.end()
    else:
        raise NotImplementedError(f"tensors on {tensors[0].device}; expected cuda or cpu")


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy that the kernels can read: adjacent elements, and rows at multiples of 16 bytes."""
    size = tensor.element_size()
    strides = tensor.stride()
    if strides[-1] == 1 and all(stride * size % 16 == 0 for stride in strides[:-1]) and tensor.data_ptr() % 16 == 0:
        return tensor
    return tensor.contiguous()


def _shape_error(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> ValueError:
    return ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit together")


def _expect(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dimensions: int) -> None:
    if any(one.dim() != dimensions for one in (q, k, v)) or k.shape != v.shape or k.shape[-1] != q.shape[-1]:
        raise _shape_error(q, k, v)
    if k.dtype != q.dtype or v.dtype != q.dtype or _name(q.dtype) not in INPUTS:
        raise TypeError(f"q, k and v have the types {q.dtype}, {k.dtype} and {v.dtype}; expected one of {', '.join(INPUTS)} for all")


def _outputs(q: torch.Tensor, dtype: torch.dtype, lse: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(q.shape, dtype=dtype, device=q.device), torch.empty(lse, dtype=torch.float32, device=q.device)


def _of_heads(heads: int, sinks: torch.Tensor, slopes: torch.Tensor) -> list[torch.Tensor]:
    for name, one in (("sinks", sinks), ("alibi_slopes", slopes)):
        if one.numel() and (one.shape != (heads,) or one.dtype != torch.float32):
            raise ValueError(f"{name}: expected float32 ({heads},), found {one.dtype} {tuple(one.shape)}")
    return [sinks.contiguous(), slopes.contiguous()]


def _run(
    request: Request,
    tensors: list[tuple[torch.Tensor, Any]],
    lse: torch.Tensor,
    of_heads: list[torch.Tensor],
    scales: list[torch.Tensor] | None = None,
    starts: list[torch.Tensor] | None = None,
    table: torch.Tensor | None = None,
) -> None:
    """Runs a request on the device of its tensors: Q, K, V and O, each with the strides of sequences, heads and rows."""
    scales, starts = scales or [], starts or []
    tables = [] if table is None else [table]
    with _device([*(one for one, _ in tensors), lse, *of_heads, *scales, *starts, *tables]) as device:
        prepared = _prepared(request, device.name)
        addresses: dict[str, Any] = {}
        if scales:
            addresses["scales"] = tuple(map(device.address, scales))
        if starts:
            addresses["starts"] = tuple(map(device.address, starts))
        if table is not None:
            addresses["pages"] = (device.address(table), table.shape[1])
        prepared.run(
            *(Tensor(device.address(one), tuple(strides)) for one, strides in tensors),  # type: ignore[arg-type]
            lse=device.address(lse),
            sinks=device.address(of_heads[0]),
            slopes=device.address(of_heads[1]),
            workspace=device.workspace(prepared.workspace),
            stream=device.stream,
            **addresses,
        )


@torch.library.custom_op("warpproof::attention", mutates_args=())
def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    causal: bool,
    scale: float,
    scales: str,
    smooth_keys: bool,
    out_dtype: str,
    window_left: int,
    window_right: int,
    softcap: float,
    sinks: torch.Tensor,
    alibi_slopes: torch.Tensor,
    return_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    _expect(q, k, v, 4)
    (batch, heads, queries, dim), (kv_batch, kv_heads, keys, _) = q.shape, k.shape
    if kv_batch != batch:
        raise _shape_error(q, k, v)
    values = _name(q.dtype) in OUTPUTS
    given = [q_scale, k_scale, v_scale]
    if not values:
        scales = _granularity(given, [(heads, queries), (kv_heads, keys), (kv_heads, keys)], batch)
        given = [one.contiguous() for one in given]
    elif any(one.numel() for one in given):
        raise ValueError("values have no scales; they are quantized here")
    request = Request(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=dim,
        queries=queries,
        keys=keys,
        input=_name(q.dtype),
        output=out_dtype,
        scales=scales,
        causal=causal,
        lse=return_lse,
        softmax_scale=scale,
        smooth_keys=smooth_keys and values and not (softcap or sinks.numel()),
        window=(window_left, window_right),
        softcap=softcap,
        sinks=sinks.numel() > 0,
        alibi=alibi_slopes.numel() > 0,
    )
    of_heads = _of_heads(heads, sinks, alibi_slopes)
    inputs = [_aligned(one) for one in (q, k, v)]
    out, lse = _outputs(q, getattr(torch, out_dtype), q.shape[:3] if return_lse else (0,))
    tensors = [(one, one.stride()[:3]) for one in (*inputs, out)]
    _run(request, tensors, lse, of_heads, scales=given)
    return out, lse


def _granularity(given: list[torch.Tensor], sizes: list[tuple[int, int]], batch: int) -> str:
    """Which elements share a scale, from the shapes of the scales."""
    for name, shapes in (
        ("head", [(batch, heads) for heads, _ in sizes]),
        ("block", [(batch, heads, -(-rows // 64)) for heads, rows in sizes]),
    ):
        if [tuple(one.shape) for one in given] == shapes and all(one.dtype == torch.float32 for one in given):
            return name
    found = ", ".join(f"{one.dtype} {tuple(one.shape)}" for one in given)
    raise ValueError(f"expected float32 scales of q, k and v for each head or block of 64 rows, found {found}")


@_attention.register_fake
def _fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    causal: bool,
    scale: float,
    scales: str,
    smooth_keys: bool,
    out_dtype: str,
    window_left: int,
    window_right: int,
    softcap: float,
    sinks: torch.Tensor,
    alibi_slopes: torch.Tensor,
    return_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(q, getattr(torch, out_dtype), q.shape[:3] if return_lse else (0,))


def _starts(cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor) -> list[torch.Tensor]:
    starts = [cu_seqlens_q, cu_seqlens_k]
    if any(one.dim() != 1 or one.dtype != torch.int32 for one in starts) or len(cu_seqlens_q) != len(cu_seqlens_k):
        raise ValueError("expected int32 cu_seqlens_q and cu_seqlens_k of one length: the number of sequences, plus one")
    return [one.contiguous() for one in starts]


@torch.library.custom_op("warpproof::attention_varlen", mutates_args=())
def _varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool,
    scale: float,
    scales: str,
    smooth_keys: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    sinks: torch.Tensor,
    alibi_slopes: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    _expect(q, k, v, 3)
    starts = _starts(cu_seqlens_q, cu_seqlens_k)
    if _name(q.dtype) not in OUTPUTS:
        raise TypeError(f"sequences of different lengths take float16 and bfloat16, found {q.dtype}")
    batch = len(cu_seqlens_q) - 1
    request = Request(
        batch=batch,
        heads=q.shape[1],
        kv_heads=k.shape[1],
        head_dim=q.shape[2],
        queries=max_seqlen_q,
        keys=max_seqlen_k,
        input=_name(q.dtype),
        output=_name(q.dtype),
        scales=scales,
        causal=causal,
        lengths_on_device=True,
        lse=True,
        softmax_scale=scale,
        smooth_keys=smooth_keys and not (softcap or sinks.numel()),
        window=(window_left, window_right),
        softcap=softcap,
        sinks=sinks.numel() > 0,
        alibi=alibi_slopes.numel() > 0,
    )
    of_heads = _of_heads(q.shape[1], sinks, alibi_slopes)
    inputs = [_aligned(one) for one in (q, k, v)]
    out, lse = _outputs(q, q.dtype, (batch, q.shape[1], max_seqlen_q))
    lse.zero_()
    tensors = [(one, (0, one.stride(1), one.stride(0))) for one in (*inputs, out)]
    _run(request, tensors, lse, of_heads, starts=starts)
    return out, lse


@_varlen.register_fake
def _varlen_fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool,
    scale: float,
    scales: str,
    smooth_keys: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    sinks: torch.Tensor,
    alibi_slopes: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(q, q.dtype, (cu_seqlens_q.shape[0] - 1, q.shape[1], max_seqlen_q))


@torch.library.custom_op("warpproof::attention_paged", mutates_args=())
def _paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    if q.dim() != 3 or k_cache.dim() != 4 or k_cache.shape != v_cache.shape or k_cache.shape[-1] != q.shape[-1]:
        raise _shape_error(q, k_cache, v_cache)
    if _name(q.dtype) not in OUTPUTS or any(one.dtype != torch.float8_e4m3fn for one in (k_cache, v_cache)):
        raise TypeError(f"expected float16 or bfloat16 queries and a float8_e4m3fn cache, found {q.dtype}, {k_cache.dtype} and {v_cache.dtype}")
    starts = _starts(cu_seqlens_q, cu_seqlens_k)
    batch = len(cu_seqlens_q) - 1
    if block_table.dim() != 2 or block_table.dtype != torch.int32 or block_table.shape[0] != batch:
        raise ValueError(f"block_table: expected int32 ({batch}, pages), found {block_table.dtype} {tuple(block_table.shape)}")
    pages, page_size, kv_heads, dim = k_cache.shape
    shapes = {(pages, kv_heads, page_size // 64): "block", (batch, kv_heads): "head"}
    granularity = shapes.get(tuple(k_scale.shape))
    if granularity is None or v_scale.shape != k_scale.shape or any(one.dtype != torch.float32 for one in (k_scale, v_scale)):
        found = ", ".join(f"{one.dtype} {tuple(one.shape)}" for one in (k_scale, v_scale))
        raise ValueError(f"expected float32 scales {' or '.join(map(str, shapes))}, found {found}")
    empty = torch.empty(0, device=q.device)
    request = Request(
        batch=batch,
        heads=q.shape[1],
        kv_heads=kv_heads,
        head_dim=dim,
        queries=max_seqlen_q,
        keys=max_seqlen_k,
        input=_name(q.dtype),
        output=_name(q.dtype),
        scales=granularity,
        causal=True,
        lengths_on_device=True,
        lse=True,
        softmax_scale=scale,
        page_size=page_size,
    )
    out, lse = _outputs(q, q.dtype, (batch, q.shape[1], max_seqlen_q))
    lse.zero_()
    rows, caches = _aligned(q), [_aligned(k_cache), _aligned(v_cache)]
    tensors: list[tuple[torch.Tensor, Any]] = [(rows, (0, rows.stride(1), rows.stride(0)))]
    tensors += [(one, (one.stride(0), one.stride(2), one.stride(1))) for one in caches]
    tensors.append((out, (0, out.stride(1), out.stride(0))))
    scales = [empty, k_scale.contiguous(), v_scale.contiguous()]
    _run(request, tensors, lse, [empty, empty], scales=scales, starts=starts, table=block_table.contiguous())
    return out, lse


@_paged.register_fake
def _paged_fake(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(q, q.dtype, (cu_seqlens_q.shape[0] - 1, q.shape[1], max_seqlen_q))


def _no_gradient(*_: Any) -> Any:
    raise NotImplementedError("warpproof's attention has no gradient; use torch.nn.functional.scaled_dot_product_attention for training")


_attention.register_autograd(_no_gradient)
_varlen.register_autograd(_no_gradient)
_paged.register_autograd(_no_gradient)
