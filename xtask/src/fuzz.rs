//! `cargo xtask fuzz`: coverage-guided fuzzing with the stable compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::part::Part;

/// Flags for coverage counters: those of `cargo fuzz`, without the sanitizers, which need a nightly compiler.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing -Cdebug-assertions";

/// Longer inputs find nothing more and cost time.
const LONGEST_INPUT: u32 = 16_384;

/// The targets, the longest to build last.
const TARGETS: [&str; 4] = ["parse", "roundtrip", "elf", "execute"];
/// How long each target of the parser runs in a whole study; that of the machine runs for as long as all of them.
const SECONDS: u64 = 30;

/// Runs all targets, or one in a sample. A sample leaves out the target of the machine, which builds for minutes.
pub(crate) fn targets(part: &Part) -> Result<String, String> {
    let (texts, machine) = TARGETS.split_at(TARGETS.len() - 1);
    if let Some(left) = part.time_left() {
        let chosen = part.few(texts, 1);
        chosen.iter().try_for_each(|target| run(target, left.as_secs().max(1)))?;
        return Ok(format!("1 of {} targets, never `execute`", TARGETS.len()));
    }
    // A target keeps one core busy.
    std::thread::scope(|scope| {
        let machine = scope.spawn(|| machine.iter().try_for_each(|target| run(target, 2 * SECONDS)));
        let texts = texts.iter().try_for_each(|target| run(target, SECONDS));
        let machine =
            machine.join().unwrap_or_else(|_| Err("the fuzz target of the machine was not run".to_owned()));
        texts.and(machine)
    })?;
    Ok(format!("{} targets", TARGETS.len()))
}

/// Builds a fuzz target and runs it for this number of seconds; a crash is an error that names the input.
pub(crate) fn run(target: &str, seconds: u64) -> Result<(), String> {
    let root = crate::root();
    let package = root.join("fuzz");
    if !package.join("targets").join(format!("{target}.rs")).is_file() {
        return Err(format!("there is no fuzz target `{target}`; see fuzz/targets"));
    }
    let output =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("fuzz");
    let triple = host()?;
    build(&package, target, &triple, &output)?;

    let corpus = output.join("corpus").join(target);
    let artifacts = output.join("artifacts").join(target);
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    }
    copy_seeds(&package.join("seeds"), &corpus)?;

    let binary = output.join(&triple).join("release").join(target);
    let status = Command::new(&binary)
        .arg(&corpus)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={LONGEST_INPUT}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        // Progress and the suggested dictionary are thousands of lines, in which a failure would be lost.
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"])
        .arg(format!("-dict={}", package.join("ptx.dict").display()))
        .status()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "fuzz target `{target}` failed; the input is {}",
        newest(&artifacts).map_or_else(|| "not written".to_owned(), |path| path.display().to_string())
    ))
}

/// The target triple of the machine that the compiler runs on.
fn host() -> Result<String, String> {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .output()
        .map_err(|error| format!("cannot run rustc: {error}"))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .ok_or_else(|| "rustc does not name its host".to_owned())
}

/// `--target`, even if it names the host, keeps the counters out of build scripts, which could not be linked with them.
fn build(package: &Path, target: &str, triple: &str, output: &Path) -> Result<(), String> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(package)
        .args(["build", "--release", "--locked", "--target", triple, "--bin", target])
        .args(if target == "execute" { &["--features", "machine"][..] } else { &[] })
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", output)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("fuzz target `{target}` does not build")) }
}

fn copy_seeds(seeds: &Path, corpus: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot copy the seeds of {}: {error}", seeds.display());
    for entry in fs::read_dir(seeds).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        fs::copy(entry.path(), corpus.join(entry.file_name())).map_err(failed)?;
    }
    Ok(())
}

fn newest(directory: &Path) -> Option<PathBuf> {
    fs::read_dir(directory)
        .ok()?
        .filter_map(Result::ok)
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok())
        .map(|entry| entry.path())
}
