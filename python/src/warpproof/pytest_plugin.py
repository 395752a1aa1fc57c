"""`pytest --warpproof`: checks the kernels that each test launches, without a GPU.

A test whose launches have an error fails, with the finding in its report. It works with xdist: each worker has a software GPU of its own.
"""

from __future__ import annotations

import json
from collections.abc import Generator
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
    try:
        _library.activate(device)
    except _library.Inactive as error:
        raise pytest.UsageError(f"--warpproof: {error}") from None
    config.pluginmanager.register(Checks(config), "warpproof-checks")


class Checks:
    """The hooks of a session with `--warpproof`."""

    def __init__(self, config: pytest.Config) -> None:
        self._sarif = config.getoption("--warpproof-sarif")
        self._worker = hasattr(config, "workerinput")
        self._findings: list[dict[str, Any]] = []
        self._tests = self._launches = 0

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
            result.warpproof = [finding.to_dict() for finding in report.findings]
            result.warpproof_launches = report.launches
            if call.excinfo is not None and call.excinfo.errisinstance(KernelError):
                # Only the findings, without a traceback into this plugin.
                result.longrepr = str(call.excinfo.value).strip()
            elif report.findings or report.messages:
                result.sections.append(("warpproof", str(report)))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects, in the process that reports to the user."""
        if report.when == "call":
            self._tests += 1
            self._launches += getattr(report, "warpproof_launches", 0)
            for finding in getattr(report, "warpproof", []):
                self._findings.append({**finding, "test": report.nodeid})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """One line, and the SARIF log."""
        errors = sum(finding["severity"] == "error" for finding in self._findings)
        notes = len(self._findings) - errors
        terminalreporter.write_line(
            f"warpproof: {self._launches} launches of {self._tests} tests checked, {errors} errors, {notes} notes"
        )
        if self._sarif:
            with open(self._sarif, "w", encoding="utf-8") as file:
                json.dump(sarif(self._findings), file, indent=2)
                file.write("\n")


def sarif(findings: list[dict[str, Any]]) -> dict[str, Any]:
    """A SARIF log of findings with the tests that made them."""

    def location(place: dict[str, Any]) -> dict[str, Any]:
        region = {"startLine": place["line"] or 1}
        physical = {"artifactLocation": {"uri": place["file"] or "module.ptx"}, "region": region}
        return {"physicalLocation": physical, "message": {"text": place["text"] or place["instruction"]}}

    results = [
        {
            "ruleId": finding["kind"],
            "level": "error" if finding["severity"] == "error" else "note",
            "message": {"text": f"{finding['message']} (kernel {finding['kernel']}, test {finding['test']})"},
            "locations": [location(place) for place in finding["places"][:1]],
            "relatedLocations": [location(place) for place in finding["places"][1:]],
        }
        for finding in findings
    ]
    rules = sorted({finding["kind"] for finding in findings})
    driver = {"name": "warpproof", "rules": [{"id": rule} for rule in rules]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
