//! Where the time of a run goes: callgrind counts the host's instructions by source file, which other work on the machine does not change.
//!
//! Valgrind has no AVX-512, so these runs use AVX2. Instructions that were inlined from the standard library belong to the file of the
//! software GPU in front of them in the machine code.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::picture;
use super::subject::{SUBJECTS, Subject};
use super::{Mode, SECTION};
use crate::section::Section;

/// Functions that are printed for each run.
const FUNCTIONS: usize = 12;

/// Parts of the software GPU, in the order of the pictures, by the beginnings of paths below `crates`. The first that fits counts.
pub(super) const PARTS: &[(&str, &[&str])] = &[
    ("arithmetic", &["num/src/", "sim/src/simd.rs"]),
    (
        "memory accesses",
        &[
            "sim/src/machine/access.rs",
            "sim/src/machine/bundle.rs",
            "sim/src/machine/watched.rs",
            "sim/src/memory/",
        ],
    ),
    ("shadow of global memory", &["check/src/global"]),
    (
        "shadow of shared memory, order",
        &[
            "check/src/race.rs",
            "check/src/lines.rs",
            "check/src/shape.rs",
            "check/src/bundles.rs",
            "check/src/shadow.rs",
            "check/src/history.rs",
            "check/src/clock.rs",
            "check/src/cluster.rs",
            "check/src/copies.rs",
        ],
    ),
    ("uninitialized values", &["check/src/init", "check/src/facts", "check/src/assigned.rs"]),
    ("provenance", &["check/src/fragment"]),
    ("other checks", &["check/src/"]),
    ("counters", &["count/src/"]),
    ("instructions, registers, warps", &["sim/src/"]),
];

/// Code outside of the software GPU: copies, allocations, maps.
pub(super) const LIBRARIES: usize = PARTS.len();

/// Instructions of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub(super) parts: [u64; LIBRARIES + 1],
    functions: BTreeMap<String, u64>,
}

impl Cost {
    pub(super) fn total(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// The part that a source file belongs to, if it is one of the software GPU.
fn part(file: &str) -> Option<usize> {
    let (_, path) = file.split_once("crates/")?;
    PARTS.iter().position(|(_, starts)| starts.iter().any(|start| path.starts_with(start)))
}

/// A name that the output of callgrind abbreviates: `(1) name` the first time, then `(1)`.
fn expand<'a>(names: &'a mut BTreeMap<String, String>, text: &str) -> &'a str {
    let (number, name) = text.split_once(' ').unwrap_or((text, ""));
    let known = names.entry(number.to_owned()).or_default();
    if !name.is_empty() {
        name.clone_into(known);
    }
    known
}

/// Reads the output of callgrind: costs of functions themselves, without those that they call.
fn parse(text: &str) -> Cost {
    let (mut files, mut functions) = (BTreeMap::new(), BTreeMap::new());
    let (mut function, mut here, mut called) = (String::new(), LIBRARIES, false);
    let mut cost = Cost::default();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or(("", line));
        match key {
            "fn" => {
                let name = expand(&mut functions, value);
                // Names end with a hash.
                let bare = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16);
                bare.map_or(name, |(bare, _)| bare).clone_into(&mut function);
            }
            "fl" => here = part(expand(&mut files, value)).unwrap_or(LIBRARIES),
            "fi" | "fe" => here = part(expand(&mut files, value)).unwrap_or(here),
            "cfi" | "cfl" => {
                expand(&mut files, value);
            }
            "cfn" => {
                expand(&mut functions, value);
            }
            // The next line is the cost of the call, which is also that of the function that is called.
            "calls" => called = true,
            "" => {
                let mut numbers = value.split_ascii_whitespace();
                let (Some(place), Some(Ok(count))) = (numbers.next(), numbers.next().map(str::parse::<u64>))
                else {
                    continue;
                };
                if place.bytes().all(|byte| byte.is_ascii_digit()) && !std::mem::take(&mut called) {
                    cost.parts[here] += count;
                    *cost.functions.entry(function.clone()).or_default() += count;
                }
            }
            _ => {}
        }
    }
    cost
}

/// Runs one kernel once in one mode.
fn count(program: &Path, subject: &Subject, mode: Mode) -> Result<Cost, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let out = folder.path().join("callgrind.out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-pos=no", "--toggle-collect=*launches_of_the_profile*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(["bench", "kernels", subject.name, "--times=1", "--small", "--json"])
        .arg(format!("--mode={}", mode.name()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    if !output.status.success() {
        return Err(format!("{}: {}", subject.name, String::from_utf8_lossy(&output.stderr)));
    }
    let text = fs::read(&out).map_err(|error| format!("cannot read {}: {error}", out.display()))?;
    let cost = parse(&String::from_utf8_lossy(&text));
    if cost.total() == 0 { Err(format!("{}: callgrind counted nothing", subject.name)) } else { Ok(cost) }
}

/// The release build with the tables of lines that callgrind reads.
fn build() -> Result<std::path::PathBuf, String> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(crate::root())
        .args(["build", "--quiet", "--locked", "--release", "--package", "xtask"])
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_RELEASE_STRIP", "none")
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(crate::target().join("release/xtask")) } else { Err("cargo failed".to_owned()) }
}

/// A number as millions, with enough digits.
fn millions(count: u64) -> String {
    let tenths = (count + 50_000) / 100_000;
    if tenths < 1000 {
        format!("{}.{}", tenths / 10, tenths % 10)
    } else {
        warpproof_model::grouped(tenths / 10)
    }
}

/// A share as a whole percentage.
fn percent(part: u64, all: u64) -> u64 {
    (part * 100 + all / 2) / all.max(1)
}

/// Counts every kernel in every mode; prints parts and functions, or writes the pictures and the table of the book.
pub(crate) fn run(filter: Option<&str>, bless: bool) -> Result<(), String> {
    let program = build()?;
    let section = Section { name: "profile", task: "bench profile", ..SECTION };
    let mut text = "| kernel | run | million instructions |".to_owned();
    for (name, _) in PARTS {
        let _ = write!(text, " {name} |");
    }
    text.push_str(" libraries |\n|---|---|---:|");
    text.push_str(&"---:|".repeat(LIBRARIES + 1));
    text.push('\n');
    for subject in SUBJECTS.iter().filter(|subject| subject.name.contains(filter.unwrap_or(""))) {
        let mut runs = Vec::new();
        for mode in Mode::ALL {
            let cost = count(&program, subject, mode)?;
            let all = cost.total();
            let _ = write!(text, "| `{}` | {} | {} |", subject.name, mode.name(), millions(all));
            for part in cost.parts {
                match percent(part, all) {
                    0 => text.push_str(" |"),
                    share => {
                        let _ = write!(text, " {share} % |");
                    }
                }
            }
            text.push('\n');
            println!("{}, {}: {} million instructions", subject.name, mode.name(), millions(all));
            let mut functions: Vec<_> = cost.functions.iter().collect();
            functions.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (name, count) in functions.into_iter().take(FUNCTIONS) {
                println!("  {:>3} %  {name}", percent(*count, all));
            }
            runs.push((mode.name(), cost));
        }
        if bless {
            let path = crate::root().join(format!("book/src/img/performance-{}.svg", subject.name));
            fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(|error| error.to_string())?;
            fs::write(&path, picture::draw(subject.name, &runs))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
    }
    println!("\n{text}");
    if bless && filter.is_none() { section.compare_or_write(&text, true) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_own_instructions_without_those_of_calls() {
        let text = "events: Ir\n\nfl=(1) crates/check/src/race.rs\nfn=(1) warpproof_check::race::access::h0123456789abcdef\n\
                    10 5\nfi=(2) /rustc/1/library/core/src/slice/iter.rs\n20 3\nfi=(3) /build/x/crates/num/src/add.rs\n7 2\n\
                    cfi=(4) /usr/lib/libc.so\ncfn=(2) memcpy\ncalls=1 40\n11 100\n12 1\nfl=(4)\nfn=(2)\n40 100\ntotals: 111\n";
        let cost = parse(text);
        let named = |name: &str| PARTS.iter().position(|(part, _)| *part == name).unwrap_or(LIBRARIES);
        assert_eq!(cost.parts[named("shadow of shared memory, order")], 8);
        assert_eq!(cost.parts[named("arithmetic")], 3);
        assert_eq!(cost.parts[LIBRARIES], 100);
        assert_eq!(cost.total(), 111);
        assert_eq!(cost.functions.get("warpproof_check::race::access"), Some(&11));
    }

    #[test]
    fn every_file_of_the_software_gpu_belongs_to_a_part() {
        assert_eq!(part("crates/sim/src/machine/warp.rs"), Some(LIBRARIES - 1));
        assert_eq!(part("/x/crates/check/src/init/global.rs"), part("crates/check/src/init.rs"));
        assert_eq!(part("/rustc/1/library/core/src/slice/iter.rs"), None);
    }

    #[test]
    fn millions_have_a_digit_after_the_point_only_if_they_are_few() {
        assert_eq!(millions(1_249_999), "1.2");
        assert_eq!(millions(4_321_000_000), "4,321");
    }
}
