"""Warpproof's libcuda.so.1 and program: where they are, and how a process uses the library."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_PACKAGE = Path(__file__).parent / "_bin"


class Inactive(RuntimeError):
    """Warpproof's libcuda is not, or cannot be, the one of this process."""


def program() -> Path:
    """The `warpproof` program: the wheel's, or the first on PATH that is not a script of this package."""
    own = _PACKAGE / "warpproof"
    if own.is_file():
        return own
    script = Path(sys.argv[0]).resolve()
    for folder in os.get_exec_path():
        found = shutil.which("warpproof", path=folder)
        if found and Path(found).resolve() != script and not _is_script(Path(found)):
            return Path(found)
    raise Inactive("the program `warpproof` was not found; install it with `pip install warpproof` or `cargo install warpproof`")


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def environment() -> dict[str, str]:
    """The variables with which the program finds NVIDIA's compiler in the wheels that `warpproof[cuda]` installs."""
    variables = dict(os.environ)
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / "cuda_nvrtc").is_dir():
            variables.setdefault("WARPPROOF_TOOLCHAIN", str(Path(folder).parent))
    return variables


@functools.cache
def library() -> Path:
    """The file that programs load as libcuda.so.1; `WARPPROOF_LIBRARY` names another."""
    named = os.environ.get("WARPPROOF_LIBRARY")
    if named:
        if not Path(named).is_file():
            raise Inactive(f"WARPPROOF_LIBRARY names {named}, which is not a file")
        return Path(named)
    own = _PACKAGE / "libcuda.so.1"
    if own.is_file():
        return own
    found = subprocess.run([program(), "exec", "--library-path"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip()) / "libcuda.so.1"


def is_active() -> bool:
    """Whether this process uses Warpproof's libcuda."""
    try:
        loaded = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return hasattr(loaded, "warpproof_driver")


def loaded() -> ctypes.CDLL:
    """The library, if this process uses it."""
    if not is_active():
        raise Inactive("call warpproof.activate() first, or run the program with `warpproof exec`")
    return ctypes.CDLL("libcuda.so.1")


def activate(
    device: str = "l4",
    *,
    checks: str | None = None,
    schedules: int | None = None,
    fail: bool = False,
    sarif: Path | None = None,
) -> None:
    """Makes Warpproof's libcuda the one of this process and of those that it starts.

    Call it before anything loads libcuda: before a kernel is launched with Triton, numba or cuda.core. Further calls have no effect.

    device: the simulated devices, comma-separated, as in `warpproof exec --device`.
    checks: `all`, `none`, or names separated by commas [default: all].
    schedules: orders of warps and blocks in which each launch is checked [default: chosen for each kernel].
    fail: whether a launch with a finding returns an error, like a device error.
    sarif: a file to which the findings of all processes are written as well, as SARIF.
    """
    if is_active():
        return
    other = _other_library()
    if other:
        raise Inactive(f"this process has loaded {other} already; call warpproof.activate() before")
    settings = {
        "WARPPROOF_DEVICE": device,
        "WARPPROOF_CHECKS": checks,
        "WARPPROOF_SCHEDULES": None if schedules is None else str(schedules),
        "WARPPROOF_FAIL": "1" if fail else None,
        "WARPPROOF_FINDINGS": "sarif" if sarif else "quiet",
        "WARPPROOF_FINDINGS_FILE": str(sarif) if sarif else None,
    }
    for name, value in settings.items():
        if value is not None:
            os.environ[name] = value
    # Under `warpproof exec`, and in processes that an active one started, the directory exists.
    if not os.environ.get("WARPPROOF_REPORT"):
        os.environ["WARPPROOF_REPORT"] = _report_folder()
    file = library()
    # Triton and numba look for the library by themselves; both have a variable that names it.
    os.environ["TRITON_LIBCUDA_PATH"] = str(file.parent)
    os.environ["NUMBA_CUDA_DRIVER"] = str(file)
    path = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = f"{file.parent}:{path}" if path else str(file.parent)
    # Its SONAME is libcuda.so.1: a library that asks for that name later gets this one.
    ctypes.CDLL(str(file), mode=os.RTLD_GLOBAL | os.RTLD_NOW)


def _report_folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="warpproof-")
    # Removed when the interpreter ends.
    _FOLDERS.append(folder)
    return folder.name


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _other_library() -> str | None:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if Path(path).name.startswith("libcuda.so"):
                return path
    return None
