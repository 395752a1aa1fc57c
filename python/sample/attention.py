"""Attention of two sequences; `examples/first_call.c` and `examples/first_call.rs` compute the same and print the same line.

CPU tensors are computed on the software GPU; with `.cuda()`, the same call runs on a device.
"""

import numpy
import torch

from warpproof.attention import attention

BATCH, HEADS, KV_HEADS, ROWS, DIM = 2, 4, 2, 192, 64


def codes(heads: int, seed: int) -> torch.Tensor:
    """Codes with a sign and a magnitude between 2^-4 and 1.75, [batch, row, head, element] in memory."""
    state, values = seed, bytearray()
    for _ in range(BATCH * ROWS * heads * DIM):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append(state >> 24 & 0x80 | 0x18 + (state >> 16 & 0x1F))
    tensor = torch.from_numpy(numpy.frombuffer(values, dtype=numpy.uint8).reshape(BATCH, ROWS, heads, DIM))
    return tensor.view(torch.float8_e4m3fn).transpose(1, 2)


def scales(heads: int) -> torch.Tensor:
    return 0.5 + 0.25 * (torch.arange(BATCH * heads) % 4).reshape(BATCH, heads).float()


q, k, v = codes(HEADS, 1), codes(KV_HEADS, 2), codes(KV_HEADS, 3)
out = attention(q, k, v, causal=True, q_scale=scales(HEADS), k_scale=scales(KV_HEADS), v_scale=scales(KV_HEADS))

fnv = 0xCBF29CE484222325
for byte in out.transpose(1, 2).contiguous().view(torch.uint8).numpy().tobytes():
    fnv = (fnv ^ byte) * 0x100000001B3 % 2**64
print(f"B2 H4/2 S192 D64 causal: {fnv:016x}")
