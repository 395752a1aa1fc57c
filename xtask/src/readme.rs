//! `cargo xtask readme`: runs the README's quick start exactly as written.
//!
//! The info string of a fenced block defines its meaning:
//!
//! | info string | meaning |
//! |---|---|
//! | `bash` | run, in order, in one shell that stops at the first failure |
//! | `text output` | the output of the block before it, standard output and errors together |
//! | anything with `no-run` | shown only |
//!
//! Any other info string is an error, so that no block is skipped by accident. The shell starts in a directory that contains only
//! `warpproof`, a link to this checkout, as after a clone. Programs are installed into a directory there, which is on `PATH`
//! like cargo's own for a user.
//!
//! Text that may differ between machines is replaced on both sides before the comparison (see [`normalize`]):
//! directories, versions of three or more parts, hashes, times, sizes of downloads, and the width of columns. Registers,
//! bytes, blocks and percentages must match exactly. All runs of the gate have the same name.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use crate::book::steady;
use crate::program;
use crate::root;
use crate::target;

/// Printed by the shell before each block; what follows it is that block's output.
const MARK: &str = "@@ block ";

#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The line of the opening fence, from 1.
    line: usize,
    kind: Kind,
    text: String,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Kind {
    Run,
    Output,
    Shown,
}

/// The README's command that installs the program. With `built`, a shell function copies the existing program instead: the rest
/// of the README behaves the same, and a release build would take as long as all other commands.
const INSTALL: &str = "install --locked --path crates/warpproof";

/// A shell function `cargo` that installs the existing program.
fn installs_built(warpproof: &Path) -> String {
    format!(
        "cargo() {{\n    if [ \"$*\" = '{INSTALL}' ]; then\n        mkdir -p \"$CARGO_INSTALL_ROOT/bin\"\n        \
         cp '{}' \"$CARGO_INSTALL_ROOT/bin/\"\n    else\n        command cargo \"$@\"\n    fi\n}}\n",
        warpproof.display()
    )
}

/// Runs README.md; `bless` writes the outputs into it instead of comparing them. With `built`, `cargo install` copies the
/// existing program.
pub(crate) fn run(bless: bool, built: bool) -> Result<(), String> {
    let path = root().join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read README.md: {error}"))?;
    let blocks = blocks(&text)?;
    let start = Instant::now();
    let prelude = if built { installs_built(&program::warpproof()?) } else { String::new() };
    let outputs = execute(&blocks, &prelude)?;
    if bless {
        return fs::write(&path, blessed(&text, &blocks, &outputs))
            .map_err(|error| format!("cannot write README.md: {error}"));
    }
    let drift = drift(&blocks, &outputs);
    if !drift.is_empty() {
        return Err(format!(
            "README.md does not show what its commands print:\n{drift}\
             if the new output is right: cargo xtask readme --bless"
        ));
    }
    let compared = blocks.iter().filter(|block| block.kind == Kind::Output).count();
    println!(
        "README.md: {} blocks run, {compared} outputs as shown, {:.1} s",
        outputs.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// The fenced blocks of a Markdown text.
fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(info)) => {
                let line = index + 1;
                let kind = kind(info).ok_or_else(|| {
                    format!(
                        "README.md:{line}: expected a block with `bash`, `text output` or `no-run`, found `{info}`"
                    )
                })?;
                if kind == Kind::Output && blocks.last().is_none_or(|block| block.kind != Kind::Run) {
                    return Err(format!("README.md:{line}: an output must follow the block that prints it"));
                }
                open = Some(Block { line, kind, text: String::new() });
            }
            (None, None) => {}
        }
    }
    if let Some(block) = open {
        return Err(format!("README.md:{}: this block is never closed", block.line));
    }
    if blocks.iter().all(|block| block.kind != Kind::Output) {
        return Err("README.md has no output to compare".to_owned());
    }
    Ok(blocks)
}

fn kind(info: &str) -> Option<Kind> {
    let mut words = info.split_whitespace();
    let language = words.next()?;
    let rest: Vec<&str> = words.collect();
    match (language, rest.as_slice()) {
        ("bash", []) => Some(Kind::Run),
        ("text", ["output"]) => Some(Kind::Output),
        (_, rest) if rest.contains(&"no-run") => Some(Kind::Shown),
        _ => None,
    }
}

/// The output of each `bash` block, in order, after a prelude that prints nothing.
fn execute(blocks: &[Block], prelude: &str) -> Result<Vec<String>, String> {
    let parts = blocks.iter().filter(|block| block.kind == Kind::Run);
    let parts = parts.map(|block| format!("printf '%s\\n' '{MARK}{}'\n{}", block.line, block.text));
    let script = format!("set -euo pipefail\nexec 2>&1\n{prelude}{}", parts.collect::<String>());
    let scratch = tempfile::tempdir().map_err(|error| format!("cannot make a directory: {error}"))?;
    let place =
        scratch.path().canonicalize().map_err(|error| format!("cannot resolve a directory: {error}"))?;
    link(&root(), &place.join("warpproof"))?;
    let installed = place.join("installed");
    let path = std::env::var("PATH").unwrap_or_default();
    let cache = target().join("readme-cache");
    let mut shell = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&place)
        .env("CARGO_INSTALL_ROOT", &installed)
        .env("CARGO_TARGET_DIR", target())
        // Removed: an installed toolkit or a setting of this machine would change the output.
        .env_remove("CUDA_HOME")
        .env_remove("CUDA_PATH")
        .env_remove("WARPPROOF_TOOLCHAIN")
        // A separate cache, as for a new user; kept between runs, because it is large.
        .env("WARPPROOF_CACHE", &cache)
        .env("CARGO_TERM_QUIET", "true")
        .env("PATH", format!("{}:{path}", installed.join("bin").display()))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start bash: {error}"))?;
    let mut printed = String::new();
    for line in shell.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).split(b'\n')) {
        let line = line.map_err(|error| format!("cannot read what the README prints: {error}"))?;
        let line = String::from_utf8_lossy(&line)
            .replace(&cache.display().to_string(), "~/.cache/warpproof")
            .replace(&place.display().to_string(), "~");
        let line = steady(&line);
        println!("{line}");
        printed.push_str(&line);
        printed.push('\n');
    }
    let status = shell.wait().map_err(|error| format!("cannot wait for bash: {error}"))?;
    if !status.success() {
        let line = printed.lines().filter_map(|line| line.strip_prefix(MARK)).next_back().unwrap_or("1");
        return Err(format!("README.md:{line}: this block failed with {status}"));
    }
    Ok(split(&printed))
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> Result<(), String> {
    std::os::unix::fs::symlink(from, to).map_err(|error| format!("cannot link the checkout: {error}"))
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> Result<(), String> {
    Err("`cargo xtask readme` needs Linux or macOS".to_owned())
}

fn split(printed: &str) -> Vec<String> {
    let mut outputs: Vec<String> = Vec::new();
    for line in printed.lines() {
        if line.starts_with(MARK) {
            outputs.push(String::new());
        } else if let Some(output) = outputs.last_mut() {
            output.push_str(line);
            output.push('\n');
        }
    }
    outputs
}

/// Pairs each run block with its output; for a run block without output, only the exit code matters.
fn expected<'a>(blocks: &'a [Block], outputs: &'a [String]) -> Vec<(&'a Block, &'a str)> {
    let mut ran = outputs.iter();
    let mut last = "";
    let mut pairs = Vec::new();
    for block in blocks {
        match block.kind {
            Kind::Run => last = ran.next().map_or("", String::as_str),
            Kind::Output => pairs.push((block, last)),
            Kind::Shown => {}
        }
    }
    pairs
}

/// A description of the outputs that differ from those shown; empty if none does.
fn drift(blocks: &[Block], outputs: &[String]) -> String {
    expected(blocks, outputs).into_iter().filter_map(|(block, printed)| difference(block, printed)).collect()
}

fn difference(block: &Block, printed: &str) -> Option<String> {
    let (shown, real) = (normalize(&block.text), normalize(printed));
    if shown == real {
        return None;
    }
    let mut pairs = shown.lines().zip(real.lines());
    let first = pairs.find(|(a, b)| a != b).unwrap_or(("one has more lines", "than the other"));
    Some(format!(
        "README.md:{}: shown:\n{}printed:\n{printed}first difference:\n  shown   {}\n  printed {}\n",
        block.line, block.text, first.0, first.1
    ))
}

/// The README with the outputs as printed.
fn blessed(text: &str, blocks: &[Block], outputs: &[String]) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for (block, printed) in expected(blocks, outputs).into_iter().rev() {
        if normalize(&block.text) != normalize(printed) {
            let end = block.line + block.text.lines().count();
            lines.splice(block.line..end, printed.lines().map(str::trim_end));
        }
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Replaces what differs between machines.
fn normalize(text: &str) -> String {
    let mut result = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut kept: Vec<String> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let next = words.get(index + 1).copied().unwrap_or("");
            let before = index.checked_sub(1).and_then(|index| words.get(index)).copied().unwrap_or("");
            kept.push(stable(before, word, next));
        }
        result.push_str(&kept.join(" "));
        result.push('\n');
    }
    // Blank lines at either end are layout.
    result.trim_matches('\n').to_owned()
}

/// A word without the parts that differ; its neighbors determine whether a number is a time or a size.
fn stable(before: &str, word: &str, after: &str) -> String {
    let bare = |text: &str| text.trim_matches(|c: char| "()[],;:".contains(c)).to_owned();
    let core = bare(word);
    let put = |name: &str| word.replace(&core, name);
    if core.is_empty() {
        return word.to_owned();
    }
    if let Some(slash) = core.rfind('/').filter(|_| core.starts_with('/') || core.starts_with("~/")) {
        // The name of a file must match; its directory may differ.
        return put(&format!("<dir>{}", core.get(slash..).unwrap_or_default()));
    }
    if is_version(&core) {
        return put("<version>");
    }
    if core.len() >= 8
        && core.chars().all(|c| c.is_ascii_hexdigit())
        && core.chars().any(|c| c.is_ascii_digit())
    {
        return put("<hash>");
    }
    if number(&core) && is_unit(&bare(after)) {
        return put("<number>");
    }
    if is_unit(&core) && number(&bare(before)) {
        return put("<unit>");
    }
    let digits = core.trim_end_matches(|c: char| c.is_alphabetic() || c == '/');
    if digits.len() < core.len() && number(digits) && is_unit(core.get(digits.len()..).unwrap_or_default()) {
        return put("<number> <unit>");
    }
    word.to_owned()
}

fn is_version(word: &str) -> bool {
    let word = word.strip_prefix(['v', 'V']).unwrap_or(word);
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() >= 3 && parts.iter().all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
}

fn number(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|c| c.is_ascii_digit() || c == '.')
        && word.starts_with(|c: char| c.is_ascii_digit())
}

/// Units of time, and of downloads. Bytes and KiB are a kernel's resources and are not replaced.
fn is_unit(word: &str) -> bool {
    matches!(word, "s" | "ms" | "µs" | "us" | "ns" | "MB" | "MiB" | "GB" | "GiB" | "MB/s" | "MiB/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str =
        "# T\n```bash\necho hello\n```\n\n```text output\nhello\n```\n```bash no-run\nrm x\n```\n";

    #[test]
    fn blocks_are_told_apart_by_their_info_string() {
        let kinds: Vec<_> = blocks(README).unwrap().iter().map(|block| (block.line, block.kind)).collect();
        assert_eq!(kinds, [(2, Kind::Run), (6, Kind::Output), (9, Kind::Shown)]);
    }

    #[test]
    fn a_block_cannot_escape_by_accident() {
        for info in ["", "sh", "console", "text", "bash ignore", "rust"] {
            let text = format!("```{info}\nx\n```\n{README}");
            assert!(blocks(&text).unwrap_err().starts_with("README.md:1:"), "`{info}`");
        }
        assert!(blocks("```bash\nx\n").unwrap_err().contains("never closed"));
        assert!(blocks("```text output\nx\n```\n").unwrap_err().contains("must follow"));
        assert!(blocks("```bash\nx\n```\n").unwrap_err().contains("no output to compare"));
    }

    #[test]
    fn a_block_that_fails_is_named() {
        let blocks = blocks("```bash\ntrue\n```\n```bash\nfalse\n```\n```text output\n```\n").unwrap();
        assert!(execute(&blocks, "").unwrap_err().starts_with("README.md:4:"));
    }

    #[test]
    fn an_output_that_drifts_is_shown() {
        let shown = blocks(README).unwrap();
        let outputs = execute(&shown, "").unwrap();
        assert_eq!(drift(&shown, &outputs), "");
        let report = drift(&shown, &["hullo\n".to_owned()]);
        assert!(report.contains("README.md:6") && report.contains("hullo"), "{report}");
        let missing = drift(&shown, &["hello\nmore\n".to_owned()]);
        assert!(!missing.is_empty(), "a line too many is a difference");
    }

    #[test]
    fn blocks_share_one_shell() {
        let blocks =
            blocks("```bash\nmkdir a; cd a; x=5\n```\n```bash\nbasename $PWD $x\n```\n```text output\n```\n")
                .unwrap();
        assert_eq!(execute(&blocks, "").unwrap(), ["", "a\n"]);
    }

    #[test]
    fn bless_writes_what_was_printed() {
        let text = "```bash\nx\n```\n```text output\nold\n```\nend\n";
        let blocks = blocks(text).unwrap();
        assert_eq!(
            blessed(text, &blocks, &["one\ntwo\n".to_owned()]),
            "```bash\nx\n```\n```text output\none\ntwo\n```\nend\n"
        );
    }

    #[test]
    fn machines_are_forgotten_and_figures_are_not() {
        let shown = "nvrtc  12.9.86  ~/.cache/warpproof/libnvrtc.so.12 (1.2 s)\n";
        let real = "nvrtc 12.9.90   /var/cache/libnvrtc.so.12 (830 ms)\n";
        assert_eq!(normalize(shown), normalize(real));
        for (a, b) in [
            ("16.7 % occupancy", "16.8 % occupancy"),
            ("96 registers", "97 registers"),
            ("37120 bytes", "37121 bytes"),
            ("/a/kernel.ptx", "/a/kernel.cubin"),
            ("100 KiB per SM", "64 KiB per SM"),
            ("sm_89", "sm_90"),
        ] {
            assert_ne!(normalize(a), normalize(b), "{a} / {b}");
        }
    }
}
