"""Findings of launches: what `check` collects."""

from __future__ import annotations

import html
import json
import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._library import loaded


class KernelError(AssertionError):
    """A kernel has bugs. The message has the findings."""


@dataclass(frozen=True)
class Place:
    """A line of a kernel, and what happened there."""

    text: str
    function: str
    file: str | None
    line: int | None
    ptx_line: int
    instruction: str
    block: tuple[int, int, int] | None
    thread: tuple[int, int, int] | None

    @classmethod
    def of(cls, record: dict[str, Any]) -> Place:
        source = record["source"][0] if record["source"] else {}
        block, thread = record["thread"] or (None, None)
        return cls(
            text=record["text"],
            function=record["function"],
            file=source.get("file"),
            line=source.get("line"),
            ptx_line=record["ptx_line"],
            instruction=record["instruction"],
            block=tuple(block) if block else None,
            thread=tuple(thread) if thread else None,
        )

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else f"PTX line {self.ptx_line} of {self.function}"

    @property
    def code(self) -> str:
        """The line of the source, or the instruction if the source is not there."""
        line = linecache.getline(self.file, self.line).strip() if self.file and self.line else ""
        return line or self.instruction


@dataclass(frozen=True)
class Finding:
    """A bug in a kernel, or a launch that ended early."""

    kernel: str
    kind: str
    severity: str
    message: str
    places: tuple[Place, ...]
    notes: tuple[str, ...]
    help: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    launch: int
    count: int
    blame: str

    @classmethod
    def of(cls, record: dict[str, Any]) -> Finding:
        return cls(
            kernel=record["kernel"],
            kind=record["class"],
            severity=record["severity"],
            message=record["sentence"],
            places=tuple(Place.of(place) for place in record["places"]),
            notes=tuple(record["notes"]),
            help=record["help"],
            grid=tuple(record["grid"]),
            block=tuple(record["block"]),
            launch=record["launch"],
            count=record["count"],
            blame=record["blame"],
        )

    @property
    def is_error(self) -> bool:
        """Whether it is more than a note."""
        return self.severity == "error"

    @property
    def place(self) -> Place | None:
        """The place to fix."""
        return self.places[0] if self.places else None

    def __str__(self) -> str:
        lines = [f"{self.severity}[{self.kind}]: {self.message}"]
        for place in self.places:
            lines.append(f"  --> {place}  {place.text}".rstrip())
            lines.append(f"      {place.code}")
        lines.extend(f"  = note: {note}" for note in self.notes)
        if self.help:
            lines.append(f"  = help: {self.help}")
        grid, block = (" × ".join(map(str, size)) for size in (self.grid, self.block))
        lines.append(f"  = kernel `{self.kernel}`, grid {grid}, block {block}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        color = "#c62828" if self.is_error else "#1565c0"
        head = f"<b style='color:{color}'>{html.escape(self.severity)}[{html.escape(self.kind)}]</b> {html.escape(self.message)}"
        rows = "".join(
            f"<tr><td style='text-align:left'><code>{html.escape(str(place))}</code></td>"
            f"<td style='text-align:left'><code>{html.escape(place.code)}</code></td>"
            f"<td style='text-align:left'>{html.escape(place.text)}</td></tr>"
            for place in self.places
        )
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        advice = f"<p><b>help:</b> {html.escape(self.help)}</p>" if self.help else ""
        return f"<div><p>{head}</p><table>{rows}</table><ul>{notes}</ul>{advice}</div>"


@dataclass
class Report:
    """What the launches of a `with warpproof.check()` did. It is complete when the block ends."""

    findings: list[Finding] = field(default_factory=list)
    launches: int = 0
    messages: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """The findings that are not notes."""
        return [finding for finding in self.findings if finding.is_error]

    def raise_for_errors(self, cause: Exception | None = None) -> None:
        """Raises KernelError if there are errors."""
        if self.errors:
            raise KernelError("\n" + "\n\n".join(map(str, self.errors))) from cause

    @property
    def summary(self) -> str:
        """The counts."""
        errors = len(self.errors)
        return f"errors: {errors}, notes: {len(self.findings) - errors}, launches: {self.launches}"

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.findings), *self.messages, self.summary])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(finding._repr_html_() for finding in self.findings) + f"<p>{self.summary}</p>"


class Records:
    """The records that the library writes for this process."""

    def __init__(self) -> None:
        folder = os.environ.get("WARPPROOF_REPORT")
        self._base = Path(folder) / str(os.getpid()) if folder else None
        self._position = self._size()
        self._launches = self._count()

    def _path(self, suffix: str) -> Path | None:
        return self._base.with_name(f"{self._base.name}.{suffix}") if self._base else None

    def _size(self) -> int:
        path = self._path("jsonl")
        return path.stat().st_size if path and path.exists() else 0

    def _count(self) -> int:
        path = self._path("launches")
        words = path.read_text().split() if path and path.exists() else []
        return int(words[0]) if words else 0

    def report(self) -> Report:
        """What was written since the object was made."""
        report = Report(launches=self._count() - self._launches)
        path = self._path("jsonl")
        if path is None or not path.exists():
            return report
        with path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                record = json.loads(line)
                if record["record"] == "finding":
                    report.findings.append(Finding.of(record))
                elif record["record"] == "said":
                    report.messages.append(record["sentence"])
                elif record["record"] == "unsupported":
                    report.messages.append(f"{record['function']} is not supported by Warpproof")
        return report


def begin(checks: str | None = None, schedules: int | None = None) -> Records:
    """Begins a new report in the library, with these settings until the next."""
    before = {name: os.environ.get(name) for name in ("WARPPROOF_CHECKS", "WARPPROOF_SCHEDULES")}
    if checks is not None:
        os.environ["WARPPROOF_CHECKS"] = checks
    if schedules is not None:
        os.environ["WARPPROOF_SCHEDULES"] = str(schedules)
    try:
        loaded().warpproof_begin_report()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return Records()


@contextmanager
def check(checks: str | None = None, schedules: int | None = None) -> Iterator[Report]:
    """Collects the findings of the launches in a `with` block.

    checks, schedules: as in `activate`, for this block only.
    """
    records = begin(checks, schedules)
    report = Report()
    try:
        yield report
    finally:
        found = records.report()
        report.findings, report.launches, report.messages = found.findings, found.launches, found.messages
        # The settings, and an error of a kernel, end with the block.
        loaded().warpproof_begin_report()
