#!/usr/bin/env python3
"""Writes docs/report.svg: the report of the README's first kernel, as a terminal shows it in color.

    docs/report.py                       # write the picture
    docs/report.py --check               # exit code 1 if the picture is out of date
    docs/report.py --warpproof PROGRAM   # the program [default: warpproof]

The kernel and the command are those of README.md. The colors are those that `warpproof check` prints.
"""

import argparse
import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PICTURE = HERE / "report.svg"
README = HERE.parent / "README.md"
NAME = "racy.cu"
# Colors of a dark terminal, by the code of the escape sequence.
COLORS = {"91": "#ff7b72", "92": "#7ee787", "93": "#e3b341", "94": "#79c0ff", "96": "#a5d6ff"}
TEXT, BACKGROUND = "#e6edf3", "#0d1117"
SIZE, ADVANCE, HEIGHT, MARGIN = 14, 8.43, 20, 16


def kernel():
    """The source that the README writes to NAME."""
    found = re.search(rf"^cat > {re.escape(NAME)} <<'CUDA'\n(.*?)^CUDA$", README.read_text(), re.M | re.S)
    if not found:
        sys.exit(f"README.md does not write {NAME}")
    return found[1]


def report(program):
    """The output of the command, with escape sequences."""
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place, NAME).write_text(kernel())
        environment = {**os.environ, "CLICOLOR_FORCE": "1"}
        environment.pop("NO_COLOR", None)
        ran = subprocess.run([program, "check", NAME], cwd=place, env=environment, capture_output=True, text=True)
    if ran.returncode != 1:
        sys.exit(f"`{program} check {NAME}` ended with {ran.returncode}, expected 1:\n{ran.stderr}")
    return ran.stdout + ran.stderr


def spans(line):
    """The pieces of a line with their color and weight."""
    color, bold = TEXT, False
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if sequence := re.fullmatch(r"\x1b\[([0-9;]*)m", piece):
            for code in sequence[1].split(";"):
                if code in ("", "0"):
                    color, bold = TEXT, False
                elif code == "1":
                    bold = True
                else:
                    color = COLORS.get(code, TEXT)
        elif piece:
            yield piece, color, bold


def picture(text):
    lines = [f"$ warpproof check {NAME}", *text.rstrip("\n").split("\n")]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width = round(max(map(len, plain)) * ADVANCE + 2 * MARGIN)
    height = len(lines) * HEIGHT + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>Report of warpproof check {NAME}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{SIZE}" fill="{TEXT}">',
    ]
    for number, line in enumerate(lines):
        y, column = MARGIN + HEIGHT * number + SIZE, 0
        for piece, color, bold in spans(line):
            x, length = MARGIN + column * ADVANCE, len(piece) * ADVANCE
            column += len(piece)
            if piece.strip():
                weight = ' font-weight="bold"' if bold else ""
                shade = "" if color == TEXT else f' fill="{color}"'
                out.append(
                    f'<text x="{x:.2f}" y="{y}" textLength="{length:.2f}" xml:space="preserve"{shade}{weight}>'
                    f"{html.escape(piece, quote=False)}</text>"
                )
    return "\n".join([*out, "</g>", "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--warpproof", default="warpproof", help="the program [default: warpproof]")
    given = parser.parse_args()
    text = picture(report(given.warpproof))
    if not given.check:
        PICTURE.write_text(text)
    elif not PICTURE.is_file() or PICTURE.read_text() != text:
        sys.exit("docs/report.svg is out of date: run docs/report.py")


main()
