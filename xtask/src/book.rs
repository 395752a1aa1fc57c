//! `cargo xtask book`: runs the commands that the book's pages show, exactly as written.
//!
//! A page with a `console` block is run from top to bottom, in an empty directory of its own:
//!
//! | block | meaning |
//! |---|---|
//! | `cuda NAME`, `ptx NAME` | written to the file NAME |
//! | `ledger NAME` | `book/samples/NAME` is copied to the default place of a ledger |
//! | `copy FOLDER` | each line is the name of a file in that folder of the repository, which is copied |
//! | `diff NAME` | changes that file: removes lines that begin with `-`, adds lines that begin with `+` |
//! | `console` | `$ ` begins a command; the lines after it are its output, standard output and errors together |
//! | any other | shown only |
//!
//! Names of runs of the gate, which are new each time, are all replaced by one.
//!
//! So the reports in the book are exactly what `warpproof` prints, and every fix is verified: once a page has changed a file, its
//! commands must succeed. A page that is named after a class of findings must show a report of that class, and every class has a
//! page, because reports link to it.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use warpproof_check::Class;

use crate::part::Part;
use crate::program;
use crate::root;

/// The folders of the pages, and of the pages about classes.
const PAGES: &str = "book/src";
const CLASSES: &str = "book/src/checks";
/// The folder of the ledgers that pages show, and the default place of a ledger.
const SAMPLES: &str = "book/samples";
const LEDGER: &str = ".warpproof/ledger";

#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The line of the opening fence, from 1.
    line: usize,
    kind: Kind,
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    File(String),
    Change(String),
    Ledger(String),
    Copy(String),
    Console,
    Shown,
}

/// Runs the pages; `bless` writes what the commands print into them instead of comparing.
pub(crate) fn run(part: &Part, bless: bool) -> Result<String, String> {
    let programs = program::warpproof()?;
    let programs = programs.parent().unwrap_or(Path::new("."));
    let mut drift = String::new();
    for class in Class::ALL {
        let page = format!("{CLASSES}/{}.md", class.name());
        if !root().join(&page).is_file() {
            let _ = writeln!(drift, "{page} is missing: reports of class `{}` link to it", class.name());
        }
    }
    let mut pages_to_run = Vec::new();
    for path in pages(&root().join(PAGES))? {
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {name}: {error}"))?;
        let blocks = blocks(&text).map_err(|error| format!("{name}:{error}"))?;
        if blocks.iter().any(|block| block.kind == Kind::Console) {
            pages_to_run.push(Page { path, name, text, blocks });
        }
    }
    let results = part.try_each(&pages_to_run, |page| page.verify(programs, bless))?;
    let note = results.note("pages");
    drift.extend(results.into_results());
    if drift.is_empty() {
        println!("book: {note} show what their commands print");
        return Ok(note);
    }
    Err(format!(
        "the book does not show what its commands print:\n{drift}if the printed text is right, run `cargo xtask book --bless`"
    ))
}

/// A page with commands.
struct Page {
    path: PathBuf,
    /// From the root.
    name: String,
    text: String,
    blocks: Vec<Block>,
}

impl Page {
    /// Runs its commands, and writes what they print or returns what differs.
    fn verify(&self, programs: &Path, bless: bool) -> Result<String, String> {
        let Self { path, name, text, blocks } = self;
        println!("{name}");
        let page = play(text, blocks, programs).map_err(|error| format!("{name}:{error}"))?;
        // Such a page is not written either: it would present a wrong kernel as correct.
        if let Some(class) = class_of(path)
            && !page.contains(&format!("[{class}]: "))
        {
            return Ok(format!("{name} shows no report of class `{class}`\n"));
        }
        if page == *text {
            return Ok(String::new());
        }
        if bless {
            fs::write(path, page).map_err(|error| format!("cannot write {name}: {error}"))?;
            return Ok(String::new());
        }
        Ok(difference(name, text, &page))
    }
}

/// The Markdown files below a directory, in order.
fn pages(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error| format!("cannot read {}: {error}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            found.extend(pages(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The class that a page is about.
fn class_of(path: &Path) -> Option<&'static str> {
    let folder = path.parent()?.file_name()?;
    let stem = path.file_stem()?.to_str()?;
    Class::ALL.into_iter().map(Class::name).find(|name| folder == "checks" && *name == stem)
}

/// The fenced blocks of a page.
fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(info)) => {
                let kind = kind(info).map_err(|error| format!("{}: {error}", index + 1))?;
                open = Some(Block { line: index + 1, kind, text: String::new() });
            }
            (None, None) => {}
        }
    }
    match open {
        Some(block) => Err(format!("{}: this block is never closed", block.line)),
        None => Ok(blocks),
    }
}

fn kind(info: &str) -> Result<Kind, String> {
    let words: Vec<&str> = info.split_whitespace().collect();
    Ok(match words.as_slice() {
        ["console"] => Kind::Console,
        ["cuda" | "ptx" | "diff" | "ledger", name] if name.contains(['/', '\\']) => {
            return Err(format!("expected a file name without a directory, found `{name}`"));
        }
        ["cuda" | "ptx", name] => Kind::File((*name).to_owned()),
        ["diff", name] => Kind::Change((*name).to_owned()),
        ["ledger", name] => Kind::Ledger((*name).to_owned()),
        ["copy", folder] => Kind::Copy((*folder).to_owned()),
        _ => Kind::Shown,
    })
}

/// The page with the output of its commands.
fn play(text: &str, blocks: &[Block], programs: &Path) -> Result<String, String> {
    let scratch = tempfile::tempdir().map_err(|error| format!("1: cannot make a directory: {error}"))?;
    let place = scratch.path().canonicalize().map_err(|error| format!("1: no directory: {error}"))?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut printed: Vec<(&Block, String)> = Vec::new();
    let mut fixed = false;
    for block in blocks {
        let at = |error: String| format!("{}: {error}", block.line);
        match &block.kind {
            Kind::Shown => {}
            Kind::File(name) => fs::write(place.join(name), &block.text)
                .map_err(|error| at(format!("cannot write {name}: {error}")))?,
            Kind::Ledger(name) => copy(&root().join(SAMPLES).join(name), &place.join(LEDGER))
                .map_err(|error| at(format!("cannot copy the ledger {name}: {error}")))?,
            Kind::Copy(folder) => {
                for name in block.text.lines() {
                    fs::copy(root().join(folder).join(name), place.join(name))
                        .map_err(|error| at(format!("cannot copy {folder}/{name}: {error}")))?;
                }
            }
            Kind::Change(name) => {
                let old = fs::read_to_string(place.join(name))
                    .map_err(|error| at(format!("cannot change {name}: {error}")))?;
                let new = changed(&old, &block.text).map_err(|error| at(format!("{name}: {error}")))?;
                fs::write(place.join(name), new)
                    .map_err(|error| at(format!("cannot write {name}: {error}")))?;
                fixed = true;
            }
            Kind::Console => {
                let mut output = String::new();
                for command in block.text.lines().filter_map(|line| line.strip_prefix("$ ")) {
                    let (said, code) = execute(command, &place, programs).map_err(at)?;
                    // Exit code 1 before the fix is the finding that the page is about; any other failure is an error of the page.
                    if !matches!((code, fixed), (Some(0), _) | (Some(1), false)) {
                        let code = code.map_or("a signal".to_owned(), |code| format!("code {code}"));
                        return Err(at(format!("`{command}` ended with {code}:\n{said}")));
                    }
                    let _ = write!(output, "$ {command}\n{said}");
                }
                if output.is_empty() {
                    return Err(at(
                        "expected `$ ` and a command at the start of a `console` block".to_owned()
                    ));
                }
                printed.push((block, output));
            }
        }
    }
    for (block, output) in printed.into_iter().rev() {
        let end = block.line + block.text.lines().count();
        lines.splice(block.line..end, output.trim_end().lines().map(|line| line.trim_end().to_owned()));
    }
    Ok(lines.join("\n") + "\n")
}

/// Copies a directory recursively.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() { copy(&path, &target)? } else { fs::copy(&path, &target).map(|_| ())? }
    }
    Ok(())
}

/// What a command prints, and its exit code.
fn execute(command: &str, place: &Path, programs: &Path) -> Result<(String, Option<i32>), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut search = OsString::from(programs);
    search.push(":");
    search.push(path);
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(place)
        .env("PATH", search)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start bash: {error}"))?;
    // The reader does not need to see the temporary directory.
    let text = String::from_utf8_lossy(&output.stdout).replace(&format!("{}/", place.display()), "");
    Ok((steady(&text), output.status.code()))
}

/// The name of every run of the gate in the book: a real name contains the time of its start, and differs each time.
const RUN: &str = "20260301T120000-1a2b3c4d";

/// A text with the name of every run of the gate replaced by [`RUN`].
pub(crate) fn steady(text: &str) -> String {
    let is_run = |word: &[u8]| {
        word.iter().enumerate().all(|(at, letter)| match at {
            8 => *letter == b'T',
            15 => *letter == b'-',
            16.. => letter.is_ascii_hexdigit(),
            _ => letter.is_ascii_digit(),
        })
    };
    let mut steady = text.as_bytes().to_vec();
    for at in 0..steady.len().saturating_sub(RUN.len() - 1) {
        if let Some(word) = steady.get_mut(at..at + RUN.len()).filter(|word| is_run(word)) {
            word.copy_from_slice(RUN.as_bytes());
        }
    }
    String::from_utf8_lossy(&steady).into_owned()
}

/// A text after a change: the lines that the change keeps and removes must occur exactly once, in succession.
fn changed(text: &str, change: &str) -> Result<String, String> {
    let mut before = Vec::new();
    let mut after = Vec::new();
    for line in change.lines() {
        let rest = line.get(1..).unwrap_or_default();
        match line.chars().next() {
            Some('-') => before.push(rest),
            Some('+') => after.push(rest),
            Some(' ') | None => {
                before.push(rest);
                after.push(rest);
            }
            Some(_) => {
                return Err(format!(
                    "expected `+`, `-` or a space at the start of a line of a change, found `{line}`"
                ));
            }
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    let places: Vec<usize> = lines
        .windows(before.len().max(1))
        .enumerate()
        .filter(|(_, window)| *window == before.as_slice())
        .map(|(index, _)| index)
        .collect();
    let [place] = places.as_slice() else {
        return Err(format!(
            "expected the lines that the change replaces once, found them {} times",
            places.len()
        ));
    };
    let mut new: Vec<&str> = lines.clone();
    new.splice(*place..place + before.len(), after);
    Ok(new.join("\n") + "\n")
}

/// Describes the first line in which a page differs from the printed text.
fn difference(name: &str, shown: &str, real: &str) -> String {
    let mut pairs = shown.lines().zip(real.lines()).enumerate();
    let (index, (a, b)) =
        pairs.find(|(_, (a, b))| a != b).unwrap_or((shown.lines().count(), ("(the end)", "more lines")));
    format!("{name}:{}:\n  shown   {a}\n  printed {b}\n", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(text: &str) -> Result<String, String> {
        play(text, &blocks(text).unwrap(), Path::new("."))
    }

    #[test]
    fn blocks_are_told_apart_by_their_info_string() {
        let text = "```cuda a.cu\nx\n```\n```diff a.cu\n```\n```console\n```\n```text\n```\n```\n```\n";
        let kinds: Vec<Kind> = blocks(text).unwrap().into_iter().map(|block| block.kind).collect();
        let file = "a.cu".to_owned();
        let expected =
            [Kind::File(file.clone()), Kind::Change(file), Kind::Console, Kind::Shown, Kind::Shown];
        assert_eq!(kinds, expected);
        assert!(blocks("```console\n").unwrap_err().contains("never closed"));
        assert!(blocks("```cuda ../a.cu\n```\n").unwrap_err().contains("without a directory"));
        assert!(blocks("```ledger ../a\n```\n").unwrap_err().contains("without a directory"));
    }

    #[test]
    fn what_a_command_prints_replaces_what_was_shown() {
        let page = played("```ptx a.txt\none\n```\nand\n```console\n$ cat a.txt\nold\nolder\n```\nend\n");
        assert_eq!(page.unwrap(), "```ptx a.txt\none\n```\nand\n```console\n$ cat a.txt\none\n```\nend\n");
    }

    #[test]
    fn runs_of_the_gate_have_one_name() {
        assert_eq!(
            steady("1 step; run 20261115T102433-6771726b in ß\n"),
            format!("1 step; run {RUN} in ß\n")
        );
        assert_eq!(steady("20261115T10243-6771726b"), "20261115T10243-6771726b");
        assert_eq!(steady(""), "");
    }

    #[test]
    fn commands_share_a_block_and_files_a_page() {
        let page = played("```console\n$ echo 1 > a\n$ cat a\n$ pwd\n```\n").unwrap();
        assert!(page.starts_with("```console\n$ echo 1 > a\n$ cat a\n1\n$ pwd\n/"), "{page}");
    }

    #[test]
    fn a_page_may_begin_with_a_ledger() {
        let page = played(
            "```ledger ladder\nNine candidates.\n```\n```console\n$ cat .warpproof/ledger/FORMAT\n```\n",
        );
        assert!(page.unwrap().ends_with("$ cat .warpproof/ledger/FORMAT\nwarpproof ledger 1\n```\n"));
        assert!(played("```ledger none\n```\n").unwrap_err().starts_with("1: cannot copy the ledger none"));
    }

    #[test]
    fn a_mend_must_mend() {
        let page = |fix: &str| {
            format!(
                "```ptx a\n1\n2\n```\n```console\n$ grep -q 3 a\n```\n```diff a\n 1\n{fix}\n```\n```console\n$ grep 3 a\n```\n"
            )
        };
        assert!(played(&page("-2\n+3")).unwrap().ends_with("$ grep 3 a\n3\n```\n"));
        assert!(played(&page("-2\n+4")).unwrap_err().starts_with("13: `grep 3 a` ended with code 1"));
        assert!(played(&page("-5\n+3")).unwrap_err().contains("found them 0 times"));
        assert!(played("```console\n$ exit 2\n```\n").unwrap_err().contains("code 2"));
    }

    #[test]
    fn a_change_keeps_what_is_around_it() {
        assert_eq!(changed("a\nb\nc\n", " a\n-b\n+x\n+y\n").unwrap(), "a\nx\ny\nc\n");
        assert_eq!(changed("a\n\nc\n", " a\n\n+b\n").unwrap(), "a\n\nb\nc\n");
        assert!(changed("a\na\n", "-a\n").unwrap_err().contains("2 times"));
        assert!(changed("a\n", "a\n").unwrap_err().contains("at the start of a line"));
    }

    #[test]
    fn a_page_that_drifts_is_shown_at_its_line() {
        let text = difference("book/src/x.md", "one\ntwo\n", "one\nthree\n");
        assert_eq!(text, "book/src/x.md:2:\n  shown   two\n  printed three\n");
        assert!(difference("x", "one\n", "one\ntwo\n").contains("more lines"));
    }

    #[test]
    fn pages_of_classes_are_known_by_their_names() {
        assert_eq!(class_of(Path::new("book/src/checks/shared-race.md")), Some("shared-race"));
        assert_eq!(class_of(Path::new("book/src/checks.md")), None);
        assert_eq!(class_of(Path::new("book/src/bounds.md")), None);
    }
}
