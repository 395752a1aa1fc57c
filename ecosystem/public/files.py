#!/usr/bin/env python3
"""Takes public CUDA files, unedited, through `warpproof`.

    git clone https://github.com/karpathy/llm.c clones/karpathy/llm.c
    ecosystem/public/files.py clones                 # check the kernels of kernels.toml
    ecosystem/public/files.py clones --nvcc nvcc     # with those that only nvcc compiles
    ecosystem/public/files.py clones --build         # compile every .cu file that defines a kernel

A clone is DIR/OWNER/NAME. Clones that are missing are left out and named, and so are kernels that need nvcc if it is not
given. `--warpproof PATH` names the program, so that two versions can be compared; `--markdown` prints the table of
book/src/public-files.md. Nothing is written into a clone. The exit code is 1 if a result is not the expected one.
"""

import argparse
import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).parent
CODES = {0: "green", 1: "findings", 2: "input", 3: "unsupported", 4: "limit", 5: "inconclusive", 101: "bug"}


def run(program, arguments, seconds=300, directory=None):
    """Exit code and output of warpproof."""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=seconds, cwd=directory)
    except subprocess.TimeoutExpired:
        return 4, "", f"error: more than {seconds} s"
    return done.returncode, done.stdout, done.stderr


def report(program, path, flags, seconds=300, directory=None):
    """Exit code of `warpproof check` and its report, or nothing if it printed none."""
    code, out, _ = run(program, ["check", str(path), *shlex.split(flags), "--format", "json"], seconds, directory)
    try:
        return code, json.loads(out)
    except json.JSONDecodeError:
        return code, None


def first_error(text):
    """The first error of a report, in one line."""
    for line in text.splitlines():
        if line.startswith("error"):
            return line.removeprefix("error: ")[:110]
    return ""


def check(program, path, flags):
    """The exit code, the number of launches, what was found, and the first error."""
    code, found = report(program, path, flags)
    if found is None:
        return code, 0, [], "no report"
    classes = sorted({one["class"] for one in found["findings"]})
    errors = [str(one.get("sentence") or one.get("message")) for one in found["reports"] if one["severity"] == "error"]
    return code, len(found["launches"]), classes, errors[0][:110] if errors else ""


def to_ptx(nvcc, path, flags, ptx):
    """Whether nvcc compiled a file, or had done so before."""
    if not ptx.is_file():
        part = ptx.with_suffix(".part")
        command = [nvcc, "-ptx", "-std=c++17", "-arch=compute_89", "-lineinfo", *shlex.split(flags), "-o", part, path]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return False
        part.rename(ptx)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=pathlib.Path, help="directory that holds OWNER/NAME clones")
    parser.add_argument("--warpproof", default="warpproof", help="the program [default: warpproof]")
    parser.add_argument("--nvcc", help="compile the files that need it with this nvcc")
    parser.add_argument("--ptx", type=pathlib.Path, help="keep the PTX of nvcc in this directory and reuse it")
    parser.add_argument("--only", default="", metavar="TEXT", help="check entries whose repository, file or flags contain TEXT")
    parser.add_argument("--schedules", default="4", metavar="N", help="run each launch in N orders [default: 4]")
    parser.add_argument("--build", action="store_true", help="compile every file with a kernel instead")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    given = parser.parse_args()
    return build(given) if given.build else table(given)


def build(given):
    """Compiles every file that defines a kernel. Prints each, then the counts by repository."""
    counts = {}
    for clone in sorted(path for path in given.clones.glob("*/*") if path.is_dir()):
        repo = "/".join(clone.parts[-2:])
        for path in sorted(clone.resolve().rglob("*.cu")):
            text = path.read_text(errors="replace")
            if not re.search(r"^[^/\n]*__global__", text, re.MULTILINE):
                continue
            code, out, err = run(given.warpproof, ["build", str(path), "--arch", "sm_89"])
            done, total = counts.get(repo, (0, 0))
            counts[repo] = (done + (code == 0), total + 1)
            print(f"{'ok  ' if code == 0 else 'FAIL'} {repo} {path.relative_to(clone.resolve())} {first_error(err)}", flush=True)
    print("\n| repository | files with a kernel | compiled |\n|---|---|---|")
    for repo, (done, total) in counts.items():
        print(f"| {repo} | {total} | {done} |")
    return 0


def table(given):
    """Checks the kernels of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = given.ptx or pathlib.Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        return checked(given, directory)


def checked(given, directory):
    """Checks the kernels of the table, with the PTX of nvcc in a directory."""
    kernels = tomllib.loads((HERE / "kernels.toml").read_text())["kernel"]
    rows, absent, skipped, unexpected = [], set(), collections.Counter(), 0
    for kernel in kernels:
        repo, file, flags = kernel.get("repo", "ours"), kernel["file"], kernel.get("flags", "")
        clone = given.clones / repo if "repo" in kernel else HERE
        path = clone / file
        if given.only not in f"{repo} {file} {flags}":
            continue
        if not path.is_file():
            absent.add(repo)
            continue
        ptx = directory / f"{repo}/{file}.ptx".replace("/", "+")
        if "nvcc" in kernel and not given.nvcc:
            skipped[f"{repo}/{file}"] += 1
            continue
        if "nvcc" not in kernel or to_ptx(given.nvcc, path, expanded(kernel["nvcc"], clone), ptx):
            executed = f"--ptx {shlex.quote(str(ptx))}" if "nvcc" in kernel else ""
            launch = f"{expanded(flags, clone)} --schedules {given.schedules} {executed}"
            code, launches, classes, error = check(given.warpproof, path, launch)
        else:
            code, launches, classes, error = 2, 0, [], "nvcc failed"
        named = re.search(r"--kernel ('[^']+'|\S+)", flags)
        name = f"`{named[1].strip(chr(39))}`" if named else f"{launches} launches"
        result = ", ".join(classes) if classes else "none" if code == 0 else f"{CODES.get(code, code)}: {error}"
        as_expected = code in (0, 1) and classes == sorted(kernel.get("expect", []))
        unexpected += not as_expected
        rows.append((repo, file, name, launches, result))
        if not given.markdown:
            print(f"{code:3} {'as expected' if as_expected else 'UNEXPECTED '} {file} {name}: {result}", flush=True)
    if given.markdown:
        print("| repository | file | kernel | findings |\n|---|---|---|---|")
        for repo, file, name, _, result in rows:
            print(f"| {repo} | `{file}` | {name} | {result} |")
    files = {(repo, file) for repo, file, *_ in rows}
    compiled = {(repo, file) for repo, file, _, launches, _ in rows if launches}
    launches = sum(launches for *_, launches, _ in rows)
    print(f"\n{launches} launches in {len(files)} files; {len(compiled)} files compiled", file=sys.stderr)
    if absent:
        print("no clone of " + ", ".join(sorted(absent)), file=sys.stderr)
    for file, count in skipped.items():
        print(f"skipped without --nvcc: {count} of {file}", file=sys.stderr)
    return 1 if unexpected else 0


def expanded(flags, clone):
    """Flags with the path of the clone."""
    return flags.replace("{repo}", shlex.quote(str(clone)))


if __name__ == "__main__":
    sys.exit(main())
