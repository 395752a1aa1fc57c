#!/usr/bin/env python3
"""Checks again every bug of bugs.toml: that `warpproof check` reports it, and that the report is gone once it is fixed.

    git clone https://github.com/karpathy/llm.c clones/karpathy/llm.c
    ecosystem/public/bugs.py clones                             # a clone is DIR/OWNER/NAME
    ecosystem/public/bugs.py --clone karpathy/llm.c=~/llm.c     # or give its path
    ecosystem/public/bugs.py --page > book/src/bugs-found.md    # write the page of the book

Bugs whose repository has no clone are skipped and named. `--only TEXT` checks the bugs whose names contain TEXT. The exit
code is 1 if a bug is no longer reported, if its fixed version still is, or if the page of the book is out of date.
Clones are not written to: a fix is made in a copy of their sources.
"""

import argparse
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib

import files

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "book/src/bugs-found.md"
SOURCES = {".cu", ".cuh", ".h", ".hpp", ".inl"}
WIDTH = 116


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", nargs="?", type=pathlib.Path, help="directory that holds OWNER/NAME clones")
    parser.add_argument("--clone", action="append", default=[], metavar="OWNER/NAME=PATH", help="where a clone is")
    parser.add_argument("--only", default="", metavar="TEXT", help="check the bugs whose names contain TEXT")
    parser.add_argument("--warpproof", default="warpproof", help="the program [default: warpproof]")
    parser.add_argument("--page", action="store_true", help="print the page of the book")
    given = parser.parse_args()
    data = tomllib.loads((HERE / "bugs.toml").read_text())
    text = page(data)
    if given.page:
        print(text, end="")
        return 0
    named = dict(one.split("=", 1) for one in given.clone)
    clones = {}
    for repo, facts in data["repo"].items():
        path = pathlib.Path(named[repo]).expanduser() if repo in named else given.clones and given.clones / repo
        if path and path.is_dir():
            clones[repo] = path.resolve()
            commit = subprocess.run(["git", "-C", path, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
            if commit != facts["commit"]:
                print(f"note: {repo} is at {commit[:9] or 'no commit'}; bugs.toml describes {facts['commit'][:9]}", flush=True)
    failed = sum(not check(given.warpproof, bug, clones[bug["repo"]])
                 for bug in data["bug"] if bug["repo"] in clones and given.only in bug["name"])
    if absent := sorted(set(data["repo"]) - set(clones)):
        print("skipped, no clone: " + ", ".join(absent))
    if not PAGE.is_file() or PAGE.read_text() != text:
        print(f"{PAGE.name} is out of date: ecosystem/public/bugs.py --page > book/src/{PAGE.name}")
        failed += 1
    return 1 if failed else 0


def check(program, bug, clone):
    """Prints a line of the table. Returns whether the results match bugs.toml."""
    expected, (found, what) = bug.get("expected", "found"), reported(program, bug, clone, bug["flags"])
    good = found or expected == "known-failure"
    words = "found" if found else "KNOWN FAILURE" if good else f"MISSING ({what})"
    if found and expected == "known-failure":
        words += ", although bugs.toml calls it a known failure"
    if "fix" in bug:
        with tempfile.TemporaryDirectory() as directory:
            copy = pathlib.Path(directory)
            edit(bug, clone, copy)
            left = errors(files.report(program, bug["file"], bug["flags"], 600, copy)[1])
    else:
        left = errors(files.report(program, bug["file"], bug["control"], 600, clone)[1]) if "control" in bug else set()
    left = sorted(left - set(bug.get("leaves", [])))
    fixed = "clean" if "fix" in bug else "control is clean" if "control" in bug else "-"
    if left:
        fixed = "STILL " + ", ".join(left)
    print(f"{bug['name']:42} {bug['class']:14} {pathlib.Path(bug['file']).name}:{bug['line']:<6} {words:14} {fixed}", flush=True)
    return good and not left


def reported(program, bug, clone, flags):
    """Whether the bug is reported with its class at its lines; otherwise the other findings."""
    code, found = files.report(program, bug["file"], flags, 600, clone)
    seen = []
    for one in found["findings"] if found else []:
        lines = {place["line"] for place in one["places"]}
        if one["severity"] == "error" and one["class"] == bug["class"] and set(bug.get("lines", [bug["line"]])) <= lines:
            return True, ""
        seen.append(f"{one['class']} at {', '.join(map(str, sorted(filter(None, lines))))}")
    return False, "; ".join(seen) or files.CODES.get(code, str(code))


def errors(found):
    """Classes of the errors of a report."""
    if found is None:
        return {"no report"}
    wrong = {str(one.get("sentence") or one.get("message")) for one in found["reports"] if one["severity"] == "error"}
    return wrong | {one["class"] for one in found["findings"] if one["severity"] == "error"}


def edit(bug, clone, copy):
    """Copies the sources of a clone and makes the fix in the copy."""
    for path in clone.rglob("*"):
        if path.suffix in SOURCES and path.is_file() and ".git" not in path.parts:
            target = copy / path.relative_to(clone)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for change in sorted(bug["fix"], key=lambda one: -one["line"]):
        path = copy / change.get("file", bug["file"])
        lines = path.read_text().split("\n")
        if "add" in change:
            lines.insert(change["line"], change["add"])
        elif change["replace"] in lines[change["line"] - 1]:
            lines[change["line"] - 1] = lines[change["line"] - 1].replace(change["replace"], change["by"])
        else:
            sys.exit(f"{bug['name']}: line {change['line']} does not contain `{change['replace']}`")
        path.write_text("\n".join(lines))


def command(bug):
    """The command, wrapped, as it is run in the clone."""
    lines, words = [], ["warpproof check", shlex.quote(bug["file"])]
    for word in shlex.split(bug["flags"]):
        word = shlex.quote(word)
        if word.startswith("-") or not words[-1].startswith("-"):
            words.append(word)
        else:
            words[-1] += " " + word
    line = words[0]
    for word in words[1:]:
        if len(line) + len(word) > WIDTH - 3:
            lines.append(line + " \\")
            line = "   "
        line += " " + word
    return "\n".join([*lines, line])


def page(data):
    """The page of the book."""
    bugs = [bug for bug in data["bug"] if bug.get("kind") != "precondition"]
    rest = [bug for bug in data["bug"] if bug.get("kind") == "precondition"]
    out = [data["intro"].strip(), "", "| repository | kernel | class | what is wrong | upstream |", "|---|---|---|---|---|"]
    for bug in bugs + rest:
        klass = bug["class"]
        short = bug["short"] + (" (**not reported yet**)" if bug.get("expected") == "known-failure" else "")
        out.append(f"| {bug['repo']} | [`{bug['kernel']}`]({address(data, bug)}) | [{klass}](checks/{klass}.md) "
                   f"| {short} | {bug['status']} |")
    for title, some in (("Bugs", bugs), ("Preconditions that are not checked", rest)):
        out += ["", f"## {title}"]
        if some is rest:
            out += ["", data["preconditions"].strip()]
        for repo, facts in data["repo"].items():
            mine = [bug for bug in some if bug["repo"] == repo]
            if mine:
                out += ["", f"### {repo}", "", f"Commit `{facts['commit'][:9]}` ({facts['date']})."]
            for bug in mine:
                name = f"[`{bug['kernel']}`, {pathlib.Path(bug['file']).name}:{bug['line']}]({address(data, bug)})"
                out += ["", f"#### {name}", "", wrapped(bug["wrong"]), ""]
                out += [wrapped(f"- *{field.capitalize()}:* {bug[field]}") for field in ("trigger", "consequence", "correction", "upstream")]
                if bug.get("expected") == "known-failure":
                    out.append("- **Warpproof does not report this one yet.** It was found by reading.")
                out += ["", "```bash no-run", command(bug), "```"]
    return "\n".join(out) + "\n"


def wrapped(text):
    """A paragraph or an item of a list, wrapped."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def address(data, bug):
    """The line on GitHub."""
    file = bug["file"].replace(" ", "%20")
    return f"https://github.com/{bug['repo']}/blob/{data['repo'][bug['repo']]['commit']}/{file}#L{bug['line']}"


if __name__ == "__main__":
    sys.exit(main())
