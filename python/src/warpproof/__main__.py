"""The command line: `warpproof …` and `python -m warpproof …`."""

from __future__ import annotations

import os
import sys

from ._library import environment, program


def main() -> None:
    """Replaces this process with the program."""
    path = str(program())
    os.execve(path, [path, *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
