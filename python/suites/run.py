"""Runs the suites of `suites.toml` on the software GPU and writes the table of the book.

    python python/suites/run.py --table book/src/suites.md

Everything that it installs and writes is in `target/suites`. A run that was interrupted continues where it ended: results are kept for the
version of the suite and of Warpproof's library.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

#: Seconds for one test. The process of a test that takes longer is ended.
LIMIT = 60

#: Why a test failed, by what its output has; the first that matches counts. What nothing matches is our fault.
REASONS = [
    ("limit", r"Timeout|timed out|worker '\w+' crashed"),
    ("hopper", r"need Hopper|takes tensor descriptors|num_ctas > 1|sm_90|sm_100|Blackwell|Hopper|compute capability (9|10)"),
    ("binary", r"NO_BINARY_FOR_GPU"),
    ("library", r"cublas|cuBLAS|cudnn|cuDNN|nvjitlink|torch\._C\._cuda|Torch not compiled with CUDA|not linked with CUDA|NVIDIA driver"),
    # The CUDA runtime asks for private tables of the driver.
    ("library", r"cudaErrorSymbolNotFound"),
    ("missing", r"ModuleNotFoundError|ImportError|fixture '\w+' not found|Block pointers have been removed|No such file or directory|CXX|C compiler|C\+\+ compiler"),
    # What cuda.core 1.2.2 answers without the driver, and the tests of 1.1.1 expect otherwise.
    ("missing", r"Buffer has been closed|GraphNode has been destroyed|same GraphDefinition|programmatic_stream_serialization|numba-debug|program-cache'"),
]

COLUMNS = ["suite", "version", "selection", "launches", "passed", "finding", "our fault", "needs sm_90+"]
COLUMNS += ["needs cuBLAS, cuDNN, GPU torch, CUDA runtime", "machine code without PTX", "missing files, other versions"]
COLUMNS += [f"over {LIMIT} s or too many instructions, or process lost", "skipped", "errors", "notes"]


def command(*words: str | Path, **options: Any) -> None:
    """Runs a command that must succeed."""
    subprocess.run([str(word) for word in words], check=True, **options)


def environment(work: Path, name: str, settings: dict[str, Any]) -> Path:
    """The Python of an environment, made or completed if its packages changed."""
    folder = work / name
    python, stamp = folder / "bin/python", folder / "suites.json"
    wanted = json.dumps(settings, sort_keys=True)
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    if not python.exists():
        command(sys.executable, "-m", "venv", folder)
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    listed = ["-r", str(HERE / settings["requirements"])] if "requirements" in settings else []
    command(*pip, *listed, *settings["install"])
    if settings.get("without_dependencies"):
        command(*pip, "--no-deps", *settings["without_dependencies"])
    stamp.write_text(wanted)
    return python


def source(work: Path, suite: dict[str, Any]) -> Path:
    """The files of a repository that a suite needs."""
    folder = work / "source" / file_name(suite)
    wanted = suite.get("source")
    if wanted and not (folder / wanted["folders"][0]).is_dir():
        command("git", "clone", "--quiet", "--no-checkout", "--filter=blob:none", wanted["repository"], folder)
        command("git", "-C", folder, "checkout", "--quiet", wanted["reference"], "--", *wanted["folders"])
    return folder


def file_name(suite: dict[str, Any]) -> str:
    """A name for the files of a suite."""
    return re.sub(r"\W+", "-", f"{suite['name']}-{suite['version']}")


def library_version(programs: Path) -> str:
    """The first digits of the hash of the library."""
    return hashlib.sha256((programs / "libcuda.so.1").read_bytes()).hexdigest()[:12]


def results_of(work: Path, programs: Path, suite: dict[str, Any]) -> Path:
    """The file of a suite's results."""
    return work / "results" / f"{file_name(suite)}-{library_version(programs)}.jsonl"


def passed(path: Path) -> str:
    """The results of the tests that passed or were skipped, one line each."""
    kept = [record for record in read(path).values() if category(record) in ("passed", "skipped")]
    return "".join(json.dumps(record) + "\n" for record in kept)


def run(work: Path, programs: Path, earlier: Path | None, suite: dict[str, Any], python: Path) -> None:
    """Runs the tests of a suite that have no result yet, and did not pass with an earlier library."""
    results, folder = results_of(work, programs, suite), source(work, suite)
    results.parent.mkdir(parents=True, exist_ok=True)
    if earlier is not None and not results.exists():
        results.write_text(passed(results_of(work, earlier, suite)))
    done = results.with_suffix(".done")
    if done.exists():
        return
    # The tests to leave out must be the same for every worker, so they do not come from the growing file.
    before = results.with_suffix(".before")
    before.write_text(results.read_text() if results.exists() else "")
    home = work / "run"
    home.mkdir(exist_ok=True)
    variables = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'python/src'}:{HERE}",
        "WARPPROOF_LIBRARY": str(programs / "libcuda.so.1"),
        "TRITON_CACHE_DIR": str(work / "triton"),
        "SUITE_RESULTS": str(results),
        "SUITE_DONE": str(before),
        "SUITE_SOURCE": str(folder),
        "SUITE_TORCH": "1" if suite.get("redirect") else "",
    }
    tests = [word.format(source=folder, launch=HERE / "launch") for word in suite["tests"]]
    plugins = ["-p", "warpproof.pytest_plugin", "-p", "plugin", "-p", "no:cacheprovider", "-p", "no:randomly"]
    limits = ["--timeout", str(LIMIT), "--timeout-method", "thread"]
    # A worker of xdist can be lost and replaced, by default four times; the process that writes the results cannot.
    workers = ["-n", "1", "--max-worker-restart", "1000000"]
    words = [str(python), "-m", "pytest", "-q", *plugins, "--warpproof", *workers, *limits, "--tb", "short", *tests]
    with results.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(words, cwd=home, env=variables, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(60 * suite["minutes"] if suite.get("minutes") else None)
            done.touch()
        except subprocess.TimeoutExpired:
            print(f"{suite['name']}: stopped after {suite['minutes']} minutes")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The results by test; a later one replaces an earlier one, except that a failure stays."""
    tests: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        record = json.loads(line)
        before = tests.get(record["test"])
        if before is None or before["outcome"] != "failed":
            tests[record["test"]] = record
    return tests


def category(record: dict[str, Any]) -> str:
    """What a result counts as."""
    if record["outcome"] in ("passed", "xfailed"):
        return "passed"
    if record["outcome"] == "skipped":
        return "skipped"
    errors = {finding["kind"] for finding in record.get("findings", []) if finding["severity"] == "error"}
    if errors:
        return "limit" if errors == {"limit"} else "finding"
    return next((name for name, pattern in REASONS if re.search(pattern, record["text"])), "ours")


def distinct(tests: dict[str, dict[str, Any]], severity: str) -> set[tuple[str, str, str]]:
    """The findings of a severity, one for each kernel, class and place."""
    return {
        (kernel_name(finding["kernel"]), finding["kind"], short(finding["place"]))
        for record in tests.values()
        for finding in record.get("findings", [])
        if finding["severity"] == severity and finding["kind"] != "limit"
    }


def kernel_name(name: str) -> str:
    """A kernel's name: of numba's mangled ones, the function."""
    found, rest = name, name.removeprefix("_ZN")
    while rest != name and (length := re.match(r"\d+", rest)):
        end = length.end() + int(length.group())
        found, rest = rest[length.end() : end], rest[end:]
    return found


def short(place: str | None) -> str:
    """A place without its folders."""
    if place is None:
        return ""
    return re.sub(r" of \S+$", "", place.rsplit("/", 1)[-1])


def row(suite: dict[str, Any], tests: dict[str, dict[str, Any]], complete: bool) -> list[str]:
    """A row of the table."""
    counts = collections.Counter(category(record) for record in tests.values())
    launches = sum(record.get("launches", 0) for record in tests.values())
    part = suite["selection"] if complete else f"{suite['selection']}; incomplete, {len(tests)} tests ended"
    numbers = [launches, *(counts[name] for name in ("passed", "finding", "ours", "hopper", "library", "binary", "missing", "limit", "skipped"))]
    findings = [len(distinct(tests, severity)) for severity in ("error", "note")]
    return [suite["name"], suite["version"], part, *map(str, numbers), *map(str, findings)]


def table(suites: list[dict[str, Any]], work: Path, programs: Path) -> str:
    """The table and the errors, as Markdown."""
    rows, errors = [], []
    for suite in suites:
        path = results_of(work, programs, suite)
        tests = read(path)
        if not tests:
            continue
        rows.append(row(suite, tests, path.with_suffix(".done").exists()))
        errors += [[suite["name"], f"`{kernel}`", kind, place] for kernel, kind, place in sorted(distinct(tests, "error"))]
    return f"{markdown(COLUMNS, rows)}\n{markdown(['suite', 'kernel', 'class', 'place'], errors)}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write(page: Path, text: str) -> None:
    """Replaces the part of a page between its two marks."""
    start, end = "<!-- suites: begin -->\n", "<!-- suites: end -->"
    before, _, rest = page.read_text().partition(start)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{start}\n{text}\n{end}{after}")


def main() -> int:
    """Runs what the command line asks for."""
    # So that a run that is ended ends its tests as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description="Run the suites of suites.toml on the software GPU")
    parser.add_argument("--suite", action="append", help="run this suite only; may be given several times")
    parser.add_argument("--programs", type=Path, default=ROOT / "target/python/programs", help="folder of `warpproof` and `libcuda.so.1`")
    parser.add_argument("--work", type=Path, default=ROOT / "target/suites", help="folder for environments and results")
    parser.add_argument("--passed-with", type=Path, metavar="PROGRAMS", help="do not run tests again that passed with this folder's library")
    parser.add_argument("--table", type=Path, help="page whose table is replaced")
    parser.add_argument("--no-run", action="store_true", help="write the table of the results that exist")
    options = parser.parse_args()
    work, programs = options.work.absolute(), options.programs.absolute()
    if not (programs / "libcuda.so.1").is_file():
        parser.error(f"expected libcuda.so.1 in {programs}; `cargo xtask python` puts it there")
    with (HERE / "suites.toml").open("rb") as file:
        settings = tomllib.load(file)
    suites = settings["suite"]
    names = {suite["name"] for suite in suites}
    if unknown := set(options.suite or ()) - names:
        parser.error(f"expected one of {', '.join(sorted(names))}; found {', '.join(unknown)}")
    for suite in suites:
        if not options.no_run and (not options.suite or suite["name"] in options.suite):
            python = environment(work, suite["environment"], settings["environment"][suite["environment"]])
            run(work, programs, options.passed_with, suite, python)
    text = table(suites, work, programs)
    if options.table:
        write(options.table, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
