"""Attention of PyTorch tensors on the software GPU, compared with PyTorch's in double precision."""

import pytest

torch = pytest.importorskip("torch")

import warpproof  # noqa: E402
from warpproof.attention import attention, attention_paged, attention_varlen, scaled_dot_product_attention, unsupported  # noqa: E402

SDPA = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def no_findings():
    """No test has a finding of the checks."""
    warpproof.activate()
    with warpproof.check() as report:
        yield
    assert report.errors == []


def tensors(*shapes, dtype=torch.float16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def exact(q, k, v, causal=False, scale=None, window=-1, softcap=0.0, sinks=None, slopes=None):
    """In double precision, with the mask aligned at the last key."""
    q, k, v = (one.double() for one in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (one.repeat_interleave(group, dim=1) for one in (k, v))
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    place = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    distance = (place - torch.arange(k.shape[2])).abs()
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if slopes is not None:
        scores = scores - slopes.double()[:, None, None] * distance
    if window >= 0:
        scores = scores.masked_fill(torch.arange(k.shape[2]) < place - window, float("-inf"))
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)], -1)
        v = torch.cat([v, torch.zeros_like(v[:, :, :1])], 2)
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


def close(found, expected):
    """FP8 has 3 bits behind the point in Q, K, V and P: relative errors of a few percent of the whole."""
    error = (found.double() - expected).abs().sum() / expected.abs().sum()
    assert found.isfinite().all() and error < 0.08, error


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "queries", "keys", "dim"), [(2, 2, 70, 70, 64), (4, 2, 1, 130, 128), (2, 1, 33, 97, 96), (2, 2, 40, 40, 256)])
def test_values_are_close_to_double_precision(dtype, causal, heads, kv_heads, queries, keys, dim):
    q, k, v = tensors((2, heads, queries, dim), (2, kv_heads, keys, dim), (2, kv_heads, keys, dim), dtype=dtype)
    out, lse = attention(q, k, v, causal=causal, return_lse=True)
    expected, expected_lse = exact(q, k, v, causal)
    assert out.dtype == dtype and out.shape == q.shape
    close(out, expected)
    torch.testing.assert_close(lse.double(), expected_lse, atol=0.1, rtol=0.0)


@pytest.mark.parametrize("queries", [1, 50])
@pytest.mark.parametrize("rare", ["window", "softcap", "sinks", "window and sinks", "softcap and window", "alibi"])
def test_windows_soft_caps_sinks_and_alibi(rare, queries):
    q, k, v = tensors((1, 4, queries, 64), (1, 2, 100, 64), (1, 2, 100, 64), dtype=torch.bfloat16)
    window, softcap = 30 if "window" in rare else -1, 1.5 if "softcap" in rare else 0.0
    sinks = torch.tensor([0.0, 2.0, 4.0, -1.0]) if "sinks" in rare else None
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625]) if rare == "alibi" else None
    out, lse = attention(q, k, v, causal=True, window=(window, -1), softcap=softcap, sinks=sinks, alibi_slopes=slopes, return_lse=True)
    expected, expected_lse = exact(q, k, v, True, None, window, softcap, sinks, slopes)
    close(out, expected)
    torch.testing.assert_close(lse.double(), expected_lse, atol=0.1, rtol=0.0)


def test_smoothing_helps_keys_with_a_large_mean():
    q, k, v = tensors((1, 2, 64, 64), (1, 2, 96, 64), (1, 2, 96, 64))
    k[..., 3] += 40
    expected, _ = exact(q, k, v)
    smooth, plain = (attention(q, k, v, smooth_keys=smooth).double() for smooth in (True, False))
    assert (smooth - expected).abs().mean() < 0.5 * (plain - expected).abs().mean()


def test_strides_are_read_in_place_and_odd_ones_are_copied():
    (packed,) = tensors((2, 40, 3, 2, 64))
    q, k, v = packed.permute(2, 0, 3, 1, 4)
    odd = torch.zeros(2, 2, 40, 65, dtype=torch.float16)[..., 1:].copy_(q)
    expected = attention(q.contiguous(), k.contiguous(), v.contiguous())
    assert torch.equal(attention(q, k, v), expected)
    assert torch.equal(attention(odd, k, v), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_sequences_of_different_lengths_are_independent(causal):
    lengths = [(5, 70), (64, 64), (1, 1)]
    q, k, v = tensors((70, 4, 64), (135, 2, 64), (135, 2, 64))
    starts = [torch.tensor([0, *column]).cumsum(0).int() for column in zip(*lengths)]
    out, lse = attention_varlen(q, k, v, *starts, 64, 70, causal=causal)
    for number, (queries, _) in enumerate(lengths):
        rows, columns = (slice(one[number], one[number + 1]) for one in starts)
        expected, expected_lse = exact(*(one.transpose(0, 1)[None] for one in (q[rows], k[columns], v[columns])), causal)
        close(out[rows].transpose(0, 1)[None], expected)
        torch.testing.assert_close(lse[number, :, :queries][None].double(), expected_lse, atol=0.1, rtol=0.0)
        assert not lse[number, :, queries:].any()


@pytest.mark.parametrize("page_size", [64, 128])
@pytest.mark.parametrize("granularity", ["block", "head"])
def test_a_cache_in_pages(page_size, granularity):
    lengths = [(3, 130), (1, 300), (20, 64)]
    (q,) = tensors((24, 4, 64), dtype=torch.bfloat16)
    starts = [torch.tensor([0, *column]).cumsum(0).int() for column in zip(*lengths)]
    pages = [-(-keys // page_size) for _, keys in lengths]
    # Pages in another order than that of their sequences; the table's other entries are not read.
    order = torch.randperm(sum(pages), generator=torch.Generator().manual_seed(1)).int()
    table = torch.full((3, max(pages)), -1, dtype=torch.int32)
    for number, own in enumerate(order.split(pages)):
        table[number, : len(own)] = own
    caches, given = [], []
    for seed in (2, 3):
        (values,) = tensors((sum(pages), page_size, 2, 64), dtype=torch.float32, seed=seed)
        if granularity == "block":
            scale = values.abs().unflatten(1, (-1, 64)).amax((2, 4)).transpose(1, 2) / 448
            each = scale.transpose(1, 2).repeat_interleave(64, 1)[..., None]
        else:
            scale, each = torch.full((3, 2), 0.01), torch.tensor(0.01)
        caches.append((values / each).clamp(-448, 448).to(torch.float8_e4m3fn))
        given.append(scale.contiguous())
    out, lse = attention_paged(q, *caches, *given, table, *starts, 20, 300)
    for number, (queries, keys) in enumerate(lengths):
        rows = slice(starts[0][number], starts[0][number + 1])
        parts = []
        for cache, scale in zip(caches, given):
            if granularity == "block":
                real = cache.double() * scale.double().transpose(1, 2).repeat_interleave(64, 1)[..., None]
            else:
                real = cache.double() * scale[number].double()[:, None]
            mine = real[table[number, : pages[number]].long()].flatten(0, 1)[:keys]
            parts.append(mine.transpose(0, 1)[None])
        expected, expected_lse = exact(q[rows].transpose(0, 1)[None], *parts, True)
        close(out[rows].transpose(0, 1)[None], expected)
        torch.testing.assert_close(lse[number, :, :queries][None].double(), expected_lse, atol=0.1, rtol=0.0)
    with pytest.raises(ValueError, match="expected float32 scales"):
        attention_paged(q, *caches, given[0], given[1][:1], table, *starts, 20, 300)
    with pytest.raises(ValueError, match="block_table"):
        attention_paged(q, *caches, *given, table.long(), *starts, 20, 300)
    # The other tests of `opcheck` compute with the arguments, and PyTorch has no products of codes.
    rules = ("test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.warpproof.attention_paged, (q, *caches, *given, table, *starts, 20, 300, 0.0), test_utils=rules)


def test_codes_need_scales_that_fit():
    q, k, v = (one.to(torch.float8_e4m3fn) for one in tensors((1, 2, 64, 64), (1, 2, 64, 64), (1, 2, 64, 64)))
    ones = torch.ones(1, 2)
    out = attention(q, k, v, q_scale=ones, k_scale=ones, v_scale=ones, out_dtype=torch.bfloat16)
    assert out.dtype == torch.bfloat16
    close(out, exact(q, k, v)[0])
    blocks = torch.ones(1, 2, 1)
    assert torch.equal(attention(q, k, v, q_scale=blocks, k_scale=blocks, v_scale=blocks), attention(q, k, v, q_scale=ones, k_scale=ones, v_scale=ones))
    with pytest.raises(ValueError, match="expected float32 scales"):
        attention(q, k, v, q_scale=ones, k_scale=ones, v_scale=torch.ones(2, 2))


def test_it_stands_in_for_pytorchs():
    q, k, v = tensors((1, 2, 64, 64), (1, 2, 64, 64), (1, 2, 64, 64))
    close(scaled_dot_product_attention(q, k, v, is_causal=True), exact(q, k, v, True)[0])
    mask = torch.ones(64, 64, dtype=torch.bool)
    for reason, arguments in [
        ("attn_mask", dict(attn_mask=mask)),
        ("dtypes other than float16 and bfloat16", dict(query=q.float(), key=k.float(), value=v.float())),
        ("is_causal with different numbers of queries and keys", dict(query=q[:, :, :3], is_causal=True)),
    ]:
        arguments = {"query": q, "key": k, "value": v, **arguments}
        assert unsupported(**arguments) == reason
        assert torch.equal(scaled_dot_product_attention(**arguments), SDPA(**arguments))


def test_the_operators_follow_pytorchs_rules():
    q, k, v = tensors((1, 2, 16, 64), (1, 2, 16, 64), (1, 2, 16, 64))
    empty = torch.empty(0)
    arguments = (q, k, v, empty, empty, empty, True, 0.0, "block", True, "float16", -1, -1, 0.0, empty, empty, True)
    torch.library.opcheck(torch.ops.warpproof.attention, arguments)
    starts = torch.tensor([0, 16], dtype=torch.int32)
    packed = [one[0].transpose(0, 1) for one in (q, k, v)]
    torch.library.opcheck(torch.ops.warpproof.attention_varlen, (*packed, starts, starts, 16, 16, True, 0.0, "head", False, -1, -1, 0.0, empty, empty))


def test_it_compiles_to_one_graph():
    q, k, v = tensors((1, 2, 16, 64), (1, 2, 16, 64), (1, 2, 16, 64))
    compiled = torch.compile(lambda q, k, v: scaled_dot_product_attention(q * 2, k, v) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), attention(q * 2, k, v) + 1)


def test_there_is_no_gradient_and_a_clear_error():
    q, k, v = tensors((1, 2, 16, 64), (1, 2, 16, 64), (1, 2, 16, 64))
    out = attention(q.requires_grad_(), k, v)
    with pytest.raises(NotImplementedError, match="no gradient"):
        out.sum().backward()


def test_what_the_library_lacks_is_named():
    q, k, v = tensors((1, 2, 16, 80), (1, 2, 16, 80), (1, 2, 16, 80))
    with pytest.raises(NotImplementedError, match="rows of 80 elements"):
        attention(q, k, v)
    q, k, v = tensors((1, 3, 16, 64), (1, 2, 16, 64), (1, 2, 16, 64))
    with pytest.raises(ValueError, match="3 query heads cannot share 2 key heads evenly"):
        attention(q, k, v)
