"""Compiles kernels.py with Triton into ptx/<name>.<arch>.ptx and writes manifest.json. No GPU is needed.

    python -m venv venv && venv/bin/pip install triton==3.9.0 && venv/bin/python generate.py

The PTX keeps Triton's line tables and debug sections; source paths in them are relative, whatever machine this runs on.
"""

import json
import re
import sys
from pathlib import Path

import triton
import triton.language.standard
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

import kernels

HERE = Path(__file__).resolve().parent
ARCHITECTURES = {"sm_89": 89, "sm_90": 90}
# The newest that ptxas of CUDA 12.9 reads; left alone, Triton asks for that of its own bundled assemblers.
PTX_VERSION = 88
# A pointer marked so is promised to be a multiple of 16 bytes, an integer to be a multiple of 16.
ALIGNED = [["tt.divisibility", 16]]


def variant(name, kernel, signature, constants, grid, warps=4, stages=3, architectures=tuple(ARCHITECTURES)):
    return dict(name=name, kernel=kernel, signature=signature, constants=constants, grid=grid, warps=warps,
                stages=stages, architectures=architectures)


def vector_add(name, dtype, block, warps):
    return variant(name, "vector_add", dict(x=f"*{dtype}", y=f"*{dtype}", out=f"*{dtype}", n="i32"),
                   dict(BLOCK=block), [f"cdiv(n, {block})", "1", "1"], warps)


def softmax(name, dtype, block, warps):
    return variant(name, "softmax",
                   dict(x=f"*{dtype}", out=f"*{dtype}", x_stride="i32", out_stride="i32", columns="i32:1"),
                   dict(BLOCK=block), ["rows", "1", "1"], warps)


def cross_entropy(name, dtype, block, warps):
    return variant(name, "cross_entropy",
                   dict(logits=f"*{dtype}", labels="*i32", losses="*fp32", stride="i32", classes="i32:1"),
                   dict(BLOCK=block), ["rows", "1", "1"], warps)


def layer_norm(name, dtype, block, warps):
    return variant(name, "layer_norm",
                   dict(x=f"*{dtype}", gamma=f"*{dtype}", beta=f"*{dtype}", out=f"*{dtype}", mean_out="*fp32",
                        rstd_out="*fp32", stride="i32", columns="i32:1", epsilon="fp32"),
                   dict(BLOCK=block), ["rows", "1", "1"], warps)


def matmul(name, dtype, out, m, n, k, warps, stages):
    return variant(name, "matmul",
                   dict(a=f"*{dtype}", b=f"*{dtype}", c=f"*{out}", m="i32:1", n="i32:1", k="i32:1", a_stride="i32",
                        b_stride="i32", c_stride="i32"),
                   dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, GROUP_M=8), [f"cdiv(m, {m}) * cdiv(n, {n})", "1", "1"], warps,
                   stages)


def matmul_persistent(name, dtype, out, m, n, k, stages, specialize):
    return variant(name, "matmul_persistent",
                   dict(a=f"*{dtype}", b=f"*{dtype}", c=f"*{out}", m="i32:1", n="i32", k="i32"),
                   dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, SPECIALIZE=specialize), ["3", "1", "1"], 4, stages, ["sm_90"])


def attention(name, dtype, out, m, n, d, causal, warps, stages):
    return variant(name, "attention",
                   dict(q=f"*{dtype}", k=f"*{dtype}", v=f"*{dtype}", out=f"*{out}", scale="fp32", sequence="i32:1"),
                   dict(BLOCK_M=m, BLOCK_N=n, D=d, CAUSAL=causal), [f"cdiv(sequence, {m})", "heads", "1"], warps,
                   stages)


# Types are Triton's; "i32:1" is an integer about which nothing is promised, "i32" a multiple of 16.
VARIANTS = [
    vector_add("vector_add_f32", "fp32", 1024, 4),
    vector_add("vector_add_f16", "fp16", 512, 4),
    vector_add("vector_add_i64", "i64", 256, 8),
    softmax("softmax_f32", "fp32", 1024, 4),
    softmax("softmax_f16", "fp16", 256, 1),
    cross_entropy("cross_entropy_f32", "fp32", 512, 4),
    layer_norm("layer_norm_f32", "fp32", 1024, 4),
    layer_norm("layer_norm_bf16", "bf16", 512, 8),
    matmul("matmul_f16_64x64x32", "fp16", "fp16", 64, 64, 32, 4, 3),
    matmul("matmul_f16_128x128x32", "fp16", "fp32", 128, 128, 32, 8, 4),
    matmul("matmul_f16_32x32x64", "fp16", "fp16", 32, 32, 64, 2, 1),
    matmul("matmul_bf16_64x128x32", "bf16", "bf16", 64, 128, 32, 4, 3),
    matmul("matmul_tf32_64x64x32", "fp32", "fp32", 64, 64, 32, 4, 2),
    matmul("matmul_s8_64x64x64", "i8", "i32", 64, 64, 64, 4, 2),
    matmul("matmul_e4m3_64x64x64", "fp8e4nv", "fp32", 64, 64, 64, 4, 3),
    matmul("matmul_e5m2_128x64x64", "fp8e5", "fp16", 128, 64, 64, 4, 2),
    matmul_persistent("matmul_persistent_f16_64x64x64", "fp16", "fp16", 64, 64, 64, 3, False),
    matmul_persistent("matmul_persistent_e4m3_128x32x64", "fp8e4nv", "fp32", 128, 32, 64, 2, False),
    matmul_persistent("matmul_persistent_bf16_128x64x32_specialized", "bf16", "fp32", 128, 64, 32, 2, True),
    attention("attention_f16_64x64", "fp16", "fp16", 64, 64, 64, False, 4, 2),
    attention("attention_f16_128x64_causal", "fp16", "fp16", 128, 64, 64, True, 8, 3),
    attention("attention_bf16_64x32_d128", "bf16", "bf16", 64, 32, 128, False, 4, 1),
    attention("attention_e4m3_64x64", "fp8e4nv", "fp16", 64, 64, 64, False, 4, 2),
    attention("attention_e5m2_128x64_causal", "fp8e5", "fp32", 128, 64, 64, True, 8, 2),
]


def forget_paths():
    """Triton copies a function's file name into the line table; give it one that is the same on every machine."""
    for module, name in ((kernels, "corpus/triton/kernels.py"),
                         (triton.language.standard, "triton/language/standard.py")):
        for value in vars(module).values():
            if isinstance(value, JITFunction):
                value.file_name = name


def debug_text(ptx):
    """The PTX with the byte strings of its debug sections decoded, to look for paths in."""
    numbers = re.findall(r"^\.b8 (\d+)", ptx, re.MULTILINE)
    return ptx + "".join(chr(int(n)) for n in numbers)


def arguments(kernel, signature, ptx):
    """What a launch passes, in order. Triton appends pointers to scratch memory that the source does not mention."""
    named = [dict(name=name, type=kind.split(":")[0], aligned=":" not in kind and kind != "fp32")
             for name, kind in signature.items()]
    declared = re.search(r"\.visible \.entry \w+\((.*?)\)", ptx, re.DOTALL).group(1)
    count = len(re.findall(r"\.param", declared))
    for name in ["global_scratch", "profile_scratch"][:count - len(named)]:
        named.append(dict(name=name, type="*i8", aligned=True, scratch=True))
    if len(named) != count:
        raise SystemExit(f"{kernel}: {count} parameters in the PTX, {len(named)} known here")
    return named


def compile_variant(v, arch, capability):
    function = getattr(kernels, v["kernel"])
    names = list(v["signature"]) + list(v["constants"])
    signature = {name: kind.split(":")[0] for name, kind in v["signature"].items()}
    signature |= {name: "constexpr" for name in v["constants"]}
    constants = {(names.index(name),): value for name, value in v["constants"].items()}
    attributes = {(i,): ALIGNED for i, kind in enumerate(v["signature"].values()) if ":" not in kind and kind != "fp32"}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    options = dict(num_warps=v["warps"], num_stages=v["stages"], enable_fp_fusion=True, ptx_version=PTX_VERSION)
    built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    ptx = built.asm["ptx"]
    if not ptx.endswith("\n"):
        ptx += "\n"
    for path in (str(HERE), sys.prefix, str(Path(triton.__file__).parent), str(Path.home())):
        if len(path) > 1 and path in debug_text(ptx):
            raise SystemExit(f"{v['name']}.{arch}: the PTX names {path}")
    file = f"ptx/{v['name']}.{arch}.ptx"
    (HERE / file).write_text(ptx)
    scratch = {name: getattr(built.metadata, name + "_size", 0) for name in ("global_scratch", "profile_scratch")}
    return dict(name=v["name"], file=file, kernel=built.metadata.name, arch=arch,
                target=re.search(r"^\.target (\w+)", ptx, re.MULTILINE).group(1),
                grid=v["grid"], block=32 * built.metadata.num_warps, num_warps=v["warps"], num_stages=v["stages"], shared_bytes=built.metadata.shared,
                scratch_bytes=scratch, arguments=arguments(v["name"], v["signature"], ptx), constants=v["constants"],
                computes=function.fn.__doc__.split("\n")[0])


def main():
    forget_paths()
    (HERE / "ptx").mkdir(exist_ok=True)
    for stale in (HERE / "ptx").glob("*.ptx"):
        stale.unlink()
    modules = [compile_variant(v, arch, ARCHITECTURES[arch]) for v in VARIANTS for arch in v["architectures"]]
    # One line a module: a change of one shows as a change of one line.
    lines = ",\n".join(json.dumps(module) for module in modules)
    (HERE / "manifest.json").write_text(f'{{"triton": "{triton.__version__}", "modules": [\n{lines}\n]}}\n')
    print(f"{len(modules)} modules, {sum((HERE / m['file']).stat().st_size for m in modules)} bytes")


main()
