"""A pytest plugin for the suites: writes one line of JSON for each test, and lets tests that ask for a GPU have CPU tensors.

`SUITE_RESULTS` names the file of results. With `SUITE_TORCH=1`, PyTorch is told that there is one device, and `device="cuda"` means
the CPU: Warpproof's Triton driver copies the tensors of a launch to the software GPU and back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from warpproof.pytest_plugin import _FINDINGS

#: The most characters of a failure that are kept.
_TEXT = 6000


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Redirects PyTorch before any test is imported."""
    if os.environ.get("SUITE_TORCH"):
        import redirect

        redirect.install()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that have a result."""
    path = Path(os.environ.get("SUITE_DONE", ""))
    done = {json.loads(line)["test"] for line in path.read_text().splitlines()} if path.is_file() else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Attaches the findings to the report, in a form that survives the way from a worker of xdist."""
    result = yield
    report = item.stash.get(_FINDINGS, None)
    if call.when == "call" and report is not None:
        result.suite = {
            "launches": report.launches,
            "messages": report.messages,
            "findings": [
                {
                    "kernel": finding.kernel,
                    "kind": finding.kind,
                    "severity": finding.severity,
                    "place": str(finding.place) if finding.place else None,
                    "text": str(finding),
                }
                for finding in report.findings
            ],
        }
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes the result of a test, in the process that reports to the user."""
    path = os.environ.get("SUITE_RESULTS")
    if not path or os.environ.get("PYTEST_XDIST_WORKER"):
        return
    # A test has up to three reports: one is written for its call, and one for whatever kept it from being called.
    if report.when != "call" and report.outcome == "passed":
        return
    line = {
        "test": report.nodeid,
        "when": report.when,
        "outcome": "xfailed" if hasattr(report, "wasxfail") else report.outcome,
        "seconds": round(report.duration, 2),
        "text": "" if report.outcome == "passed" else report.longreprtext[-_TEXT:],
        **getattr(report, "suite", {}),
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request: pytest.FixtureRequest) -> None:
    """A fixture that the tests of numba-cuda take from a file that its wheel does not contain."""
    request.cls._dump_failed_filechecks = False
