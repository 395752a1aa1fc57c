"""Compiles kernels.py with Triton into ../data/serving/<name>.ptx and writes manifest.json there. No GPU is needed.

    python -m venv venv && venv/bin/pip install triton==3.9.0 && venv/bin/python generate.py

Names of modules may be given, to compile only these.
"""

import json
import os
import re
import sys
from pathlib import Path

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "serving"
# The newest that ptxas of CUDA 12.9 reads.
PTX_VERSION = 88
# A pointer marked so is promised to be a multiple of 16 bytes, an integer to be a multiple of 16.
ALIGNED = [["tt.divisibility", 16]]
SHORT = {"fp16": "f16", "fp8e4nv": "e4m3"}


def attend(dtype, m, n, d, warps, stages):
    signature = dict(q=f"*{dtype}", k=f"*{dtype}", v=f"*{dtype}", out="*fp16", scale="fp32", queries="i32:1", keys="i32:1",
                     group="i32:1")
    return dict(name=f"attend_{SHORT[dtype]}_d{d}", kernel="attend", signature=signature,
                constants=dict(BLOCK_M=m, BLOCK_N=n, D=d), warps=warps, stages=stages)


def decode(dtype, n, d, warps, stages):
    signature = dict(q=f"*{dtype}", k=f"*{dtype}", v=f"*{dtype}", partial="*fp32", sums="*fp32", scale="fp32", keys="i32:1",
                     group="i32:1", per_split="i32:1")
    return dict(name=f"decode_{SHORT[dtype]}_d{d}", kernel="decode", signature=signature,
                constants=dict(BLOCK_M=16, BLOCK_N=n, D=d), warps=warps, stages=stages)


def combine(d, splits):
    return dict(name=f"combine_d{d}", kernel="combine", signature=dict(partial="*fp32", sums="*fp32", out="*fp16", splits="i32:1"),
                constants=dict(SPLITS=splits, D=d), warps=1, stages=1)


# Tiles, warps and stages: one configuration of those that Triton's tutorial searches; not the result of a search.
VARIANTS = [
    attend("fp16", 128, 64, 64, 4, 3),
    attend("fp16", 128, 32, 128, 8, 3),
    attend("fp8e4nv", 128, 64, 64, 4, 3),
    attend("fp8e4nv", 128, 64, 128, 8, 3),
    decode("fp16", 64, 64, 4, 3),
    decode("fp16", 64, 128, 4, 3),
    decode("fp8e4nv", 64, 64, 4, 3),
    decode("fp8e4nv", 64, 128, 4, 3),
    combine(64, 64),
    combine(128, 64),
]


def compile_variant(v):
    function = getattr(kernels, v["kernel"])
    names = list(v["signature"]) + list(v["constants"])
    signature = {name: kind.split(":")[0] for name, kind in v["signature"].items()}
    signature |= {name: "constexpr" for name in v["constants"]}
    constants = {(names.index(name),): value for name, value in v["constants"].items()}
    attributes = {(i,): ALIGNED for i, kind in enumerate(v["signature"].values()) if kind.startswith("*")}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    options = dict(num_warps=v["warps"], num_stages=v["stages"], enable_fp_fusion=True, ptx_version=PTX_VERSION)
    built = triton.compile(source, target=GPUTarget("cuda", 89, 32), options=options)
    ptx = built.asm["ptx"].rstrip() + "\n"
    for path in (str(HERE), sys.prefix, str(Path.home())):
        if len(path) > 1 and path in ptx:
            raise SystemExit(f"{v['name']}: the PTX names {path}")
    (DATA / f"{v['name']}.ptx").write_text(ptx)
    arguments = [dict(name=name, type=kind.split(":")[0]) for name, kind in v["signature"].items()]
    declared = re.search(r"\.visible \.entry \w+\((.*?)\)", ptx, re.DOTALL).group(1)
    # Triton appends pointers to scratch memory that the source does not mention.
    for name in ["global_scratch", "profile_scratch"][:len(re.findall(r"\.param", declared)) - len(arguments)]:
        arguments.append(dict(name=name, type="*i8", scratch=True))
    return dict(name=v["name"], arch="sm_89", kernel=built.metadata.name, block=32 * v["warps"], num_stages=v["stages"],
                shared_bytes=built.metadata.shared, arguments=arguments, constants=v["constants"])


def main():
    DATA.mkdir(exist_ok=True)
    chosen = [v for v in VARIANTS if not sys.argv[1:] or v["name"] in sys.argv[1:]]
    modules = [compile_variant(v) for v in chosen]
    manifest = dict(generated_by="generate.py", triton=triton.__version__, ptx_version=PTX_VERSION, modules=modules)
    (DATA / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


main()
