"""`pytest --warpproof`: checks the kernels that each test launches, without a GPU.

A test whose launches have an error fails, with the finding in its report. It works with xdist: each worker has a software GPU of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from . import _library
from ._report import KernelError, Report, begin

_FINDINGS = pytest.StashKey[Report]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("warpproof", "CUDA and Triton kernels, checked without a GPU")
    group.addoption(
        "--warpproof",
        nargs="?",
        const="l4",
        default=None,
        metavar="DEVICE",
        help="check every kernel that a test launches, on a simulated device [default: l4]",
    )
    group.addoption("--warpproof-sarif", metavar="FILE", default=None, help="write the findings of all tests as SARIF")


def pytest_configure(config: pytest.Config) -> None:
    """Activates the software GPU before tests are imported."""
    config.addinivalue_line(
        "markers",
        "warpproof(checks=None, schedules=None): settings of --warpproof for one test; checks='none' runs it unchecked",
    )
    device = config.getoption("--warpproof")
    if device is None:
        return
    if device.startswith("-") or "/" in device or "::" in device or device.endswith(".py"):
        raise pytest.UsageError(f"--warpproof={device}: expected a device; write `--warpproof=l4 {device}`")
    sarif = config.getoption("--warpproof-sarif")
    if sarif and not hasattr(config, "workerinput"):
        # The library adds a run for each process to an existing file.
        Path(sarif).unlink(missing_ok=True)
    try:
        _library.activate(device, sarif=Path(sarif).absolute() if sarif else None)
    except _library.Inactive as error:
        raise pytest.UsageError(f"--warpproof: {error}") from None
    config.pluginmanager.register(Checks(), "warpproof-checks")


class Checks:
    """The hooks of a session with `--warpproof`."""

    def __init__(self) -> None:
        #: Tests, launches, errors, findings.
        self._counts = [0, 0, 0, 0]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Test modules may import Triton; its driver is then ours."""
        try:
            import triton  # noqa: F401
        except ImportError:
            return
        from . import triton as ours

        ours.install()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fails a test whose launches have errors."""
        mark = item.get_closest_marker("warpproof")
        records = begin(**mark.kwargs) if mark else begin()
        try:
            result = yield
        finally:
            item.stash[_FINDINGS] = report = records.report()
        report.raise_for_errors()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Attaches the findings to the test's report."""
        result = yield
        report = item.stash.get(_FINDINGS, None)
        if call.when == "call" and report is not None:
            result.warpproof = (report.launches, len(report.errors), len(report.findings))
            if call.excinfo is not None and call.excinfo.errisinstance(KernelError):
                # Only the findings, without a traceback into this plugin.
                result.longrepr = str(call.excinfo.value).strip()
            elif report.findings or report.messages:
                result.sections.append(("warpproof", str(report)))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects, in the process that reports to the user."""
        counts = getattr(report, "warpproof", None)
        if counts is not None:
            self._counts = [have + more for have, more in zip(self._counts, (1, *counts))]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """One line."""
        tests, launches, errors, findings = self._counts
        notes = findings - errors
        terminalreporter.write_line(f"warpproof: {launches} launches of {tests} tests checked, errors: {errors}, notes: {notes}")
