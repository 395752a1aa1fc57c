"""The Triton kernel of the trial. Compiles it for sm_89 without a GPU and copies what Triton's cache holds of it next to
this file:

    python3 -m venv venv && venv/bin/pip install triton==3.9.0 && venv/bin/python silu_and_mul.py

Paths of the machine are taken out of the copies; nothing else is changed.
"""

import json
import re
from pathlib import Path

import triton
import triton.language as tl
import triton.language.standard
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

HERE = Path(__file__).resolve().parent


@triton.jit
def silu_and_mul(gate, up, out, rows, hidden, limit, BLOCK: tl.constexpr):
    """out = silu(min(gate, limit)) * up, a program for each row."""
    row = tl.program_id(0)
    for start in range(0, hidden, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < hidden
        g = tl.load(gate + row * hidden + at, mask=inside).to(tl.float32)
        u = tl.load(up + row * hidden + at, mask=inside).to(tl.float32)
        g = tl.minimum(g, limit)
        tl.store(out + row * hidden + at, (g * tl.sigmoid(g) * u).to(out.dtype.element_ty), mask=inside)


def main():
    for value in vars(triton.language.standard).values():
        if isinstance(value, JITFunction):
            value.file_name = "triton/language/standard.py"
    silu_and_mul.file_name = "silu_and_mul.py"
    aligned = [["tt.divisibility", 16]]
    source = ASTSource(
        fn=silu_and_mul,
        signature=dict(gate="*bf16", up="*bf16", out="*bf16", rows="i32", hidden="i32", limit="fp32", BLOCK="constexpr"),
        constexprs={(6,): 512},
        attrs={(0,): aligned, (1,): aligned, (2,): aligned},
    )
    # The newest PTX that ptxas of CUDA 12.9 reads; left alone, Triton asks for that of its own assembler.
    built = triton.compile(source, target=GPUTarget("cuda", 89, 32), options=dict(num_warps=4, ptx_version=88))
    name = built.metadata.name
    metadata = {key: value for key, value in built.metadata._asdict().items() if key not in ("target", "extern_libs", "TRITON_DEFAULT_FP_FUSION")}
    (HERE / f"{name}.json").write_text(json.dumps(metadata) + "\n")
    (HERE / f"{name}.ptx").write_text(built.asm["ptx"].rstrip() + "\n")
    ttir = re.sub(r'"/[^"]*/', '"', str(built.asm["ttir"]))
    (HERE / f"{name}.ttir").write_text(ttir.rstrip() + "\n")


main()
