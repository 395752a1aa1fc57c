#!/usr/bin/env python3
"""Takes public CUDA files, unedited, through `warpproof`.

    git clone https://github.com/karpathy/llm.c clones/karpathy/llm.c
    ecosystem/public/files.py clones                 # check the kernels of kernels.toml
    ecosystem/public/files.py clones --build         # compile every .cu file that defines a kernel

A clone is DIR/OWNER/NAME. Clones that are missing are left out and named. `--warpproof PATH` names the program, so that
two versions can be compared; `--markdown` prints the table of book/src/public-files.md. Nothing is written into a clone.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tomllib

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
    """Whether a file compiled and was executed, and what was found."""
    code, found = report(program, path, flags)
    if found is None:
        return code, False, [], "no report"
    classes = sorted({one["class"] for one in found["findings"]})
    errors = [str(one.get("sentence") or one.get("message")) for one in found["reports"] if one["severity"] == "error"]
    return code, bool(found["launches"]), classes, errors[0][:110] if errors else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=pathlib.Path, help="directory that holds OWNER/NAME clones")
    parser.add_argument("--warpproof", default="warpproof", help="the program [default: warpproof]")
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
    kernels = tomllib.loads(pathlib.Path(__file__).with_name("kernels.toml").read_text())["kernel"]
    rows, absent = [], set()
    for kernel in kernels:
        path = given.clones / kernel["repo"] / kernel["file"]
        if not path.is_file():
            absent.add(kernel["repo"])
            continue
        flags = kernel["flags"].replace("{repo}", shlex.quote(str(given.clones / kernel["repo"])))
        code, compiled, classes, error = check(given.warpproof, path, flags)
        name = re.search(r"--kernel (\S+)", kernel["flags"])[1]
        result = ", ".join(classes) if classes else "none" if code == 0 else f"{CODES.get(code, code)}: {error}"
        rows.append((kernel["repo"], kernel["file"], name, compiled, result))
        if not given.markdown:
            print(f"{code:3} {'compiled' if compiled else 'NOT     '} {kernel['file']} {name}: {result}", flush=True)
    if given.markdown:
        print("| repository | file | kernel | findings |\n|---|---|---|---|")
        for repo, file, name, _, result in rows:
            print(f"| {repo} | `{file}` | `{name}` | {result} |")
    files = {(repo, file) for repo, file, *_ in rows}
    compiled = {(repo, file) for repo, file, _, done, _ in rows if done}
    print(f"\n{len(rows)} kernels in {len(files)} files; {len(compiled)} files compiled", file=sys.stderr)
    if absent:
        print("no clone of " + ", ".join(sorted(absent)), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
