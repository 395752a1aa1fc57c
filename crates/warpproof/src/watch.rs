//! Running a command again whenever a file that it reads changes.
//!
//! Files are compared by content, five times a second: editors replace files in ways that notifications report differently
//! on each system, and a kernel consists of a few small files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::report::Outcome;
use crate::terminal::Terminal;

/// The interval between two comparisons.
const PAUSE: Duration = Duration::from_millis(200);
/// The maximum number of files that are watched.
const MAX_FILES: usize = 512;
/// Files up to this size, in bytes, are compared by content; larger files by size and modification time.
const MAX_BYTES: u64 = 16 << 20;

/// Whether to run again when something changes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WatchFlags {
    /// Run again when the source, an included file or the task changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Stop after N runs
    #[arg(long, value_name = "N", requires = "watch", hide = true)]
    watch_runs: Option<u32>,
}

impl WatchFlags {
    /// Runs `work` once, or again after every change of a file in `files`. Returns the outcome of the last run.
    pub(crate) fn repeat(
        self,
        stop: &AtomicBool,
        terminal: &mut Terminal,
        files: impl Fn() -> Vec<PathBuf>,
        mut work: impl FnMut(&mut Terminal) -> Outcome,
    ) -> Outcome {
        let mut runs = 1;
        loop {
            // Taken before the work, so that a change during the work is detected after it.
            let before = state(files());
            let outcome = work(terminal);
            if !self.watch || self.watch_runs.is_some_and(|most| runs >= most) || stop.load(Ordering::Relaxed)
            {
                return outcome;
            }
            let count = before.len();
            terminal.note(format_args!(
                "watching {count} file{}; press Ctrl-C to stop",
                if count == 1 { "" } else { "s" }
            ));
            let changed = loop {
                if stop.load(Ordering::Relaxed) {
                    return outcome;
                }
                // The set of files changes with the includes of the source.
                let now = state(files());
                if let Some(changed) = difference(&before, &now) {
                    break changed;
                }
                thread::sleep(PAUSE);
            };
            terminal.note(format_args!("\n{} changed", changed.display()));
            runs += 1;
        }
    }
}

/// A hash of each file's content; `None` if it cannot be read.
type State = BTreeMap<PathBuf, Option<blake3::Hash>>;

fn state(files: Vec<PathBuf>) -> State {
    let content = |file: &Path| {
        let known = fs::metadata(file).ok()?;
        if known.len() > MAX_BYTES {
            return Some(blake3::hash(format!("{:?} {}", known.modified().ok(), known.len()).as_bytes()));
        }
        fs::read(file).ok().map(|bytes| blake3::hash(&bytes))
    };
    files
        .into_iter()
        .take(MAX_FILES)
        .map(|file| {
            let held = content(&file);
            (file, held)
        })
        .collect()
}

/// The first file that changed.
fn difference(before: &State, now: &State) -> Option<PathBuf> {
    let other = |(file, held): &(&PathBuf, &Option<blake3::Hash>)| before.get(*file) != Some(*held);
    let changed = now.iter().find(other).map(|(file, _)| file.clone());
    changed.or_else(|| before.keys().find(|file| !now.contains_key(*file)).cloned())
}

/// A source and the files that it includes with quotes, directly or indirectly, if they are found next to it or in `directories`.
pub(crate) fn sources(file: &Path, directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = vec![file.to_path_buf()];
    let mut next = 0;
    while let Some(file) = all.get(next).cloned() {
        next += 1;
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let beside = file.parent().unwrap_or(Path::new("."));
        for name in text.lines().filter_map(included) {
            let places = std::iter::once(beside).chain(directories.iter().map(PathBuf::as_path));
            let found = places.map(|place| place.join(name)).find(|path| path.is_file());
            if let Some(found) = found.filter(|found| !all.contains(found) && all.len() < MAX_FILES) {
                all.push(found);
            }
        }
    }
    all
}

/// The file of a line `#include "file"`.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let rest = rest.strip_prefix('"').or_else(|| rest.strip_prefix('<'))?;
    rest.split(['"', '>']).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_followed() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let at = |name: &str| folder.path().join(name);
        let write =
            |name: &str, text: &str| fs::write(at(name), text).unwrap_or_else(|error| panic!("{error}"));
        write("a.cu", "#include \"b.cuh\"\n  #  include <cuda_fp16.h>\n// #include \"no.cuh\"\n");
        write("b.cuh", "#include \"a.cu\"\n#include \"c.cuh\"\n");
        write("c.cuh", "");
        assert_eq!(sources(&at("a.cu"), &[]), [at("a.cu"), at("b.cuh"), at("c.cuh")]);
        let before = state(sources(&at("a.cu"), &[]));
        assert_eq!(difference(&before, &state(sources(&at("a.cu"), &[]))), None);
        write("c.cuh", "int x;");
        assert_eq!(difference(&before, &state(sources(&at("a.cu"), &[]))), Some(at("c.cuh")));
        write("b.cuh", "");
        assert_eq!(difference(&before, &state(sources(&at("a.cu"), &[]))), Some(at("b.cuh")));
    }
}
