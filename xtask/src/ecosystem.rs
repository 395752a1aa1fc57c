//! `cargo xtask ecosystem`: runs unchanged packages of other projects, from their registries, on our driver.
//!
//! The driver library is the one next to `warpproof`. A `run` script in `ecosystem/` installs or builds each program below the
//! target directory; the program runs under `warpproof exec`. The task checks two things: the program's own count of what ran,
//! which may not shrink, and the report of `exec`, which must contain the planted bugs and nothing else. The book's table lists
//! what ran.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    sync::OnceLock,
    time::Instant,
};

use serde_json::Value;

use crate::cores;
use crate::part::Part;
use crate::program;
use crate::root;
use crate::section::Section;
use crate::target;

const SECTION: Section = Section { page: "book/src/exec.md", name: "programs", task: "ecosystem" };

/// Seconds after which a program counts as hanging; a busy machine takes many times as long as an idle one.
const PATIENCE: &str = "3600";

/// A run of a program.
struct Job {
    /// Its directory in `ecosystem/`.
    folder: &'static str,
    /// Arguments of its script.
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// The classes that the checks must find in it; no others are allowed.
    findings: &'static [&'static str],
    /// Source lines that its reports must show.
    places: &'static [&'static str],
}

const fn right(folder: &'static str) -> Job {
    Job { folder, arguments: &[], environment: &[], findings: &[], places: &[] }
}

/// What programs for cudarc do on purpose: they test the errors. The race of streams is in cudarc: its copy from one context to
/// another does not wait for the allocation in the other's stream.
const MISUSE: &[&str] = &[
    "alignment",
    "bounds",
    "copy-bounds",
    "double-free",
    "invalid-free",
    "limit",
    "stream-race",
    "trap",
    "use-after-free",
];

/// CubeCL's memory pools live until the process ends. The longest first, so that no long job runs alone at the end.
const JOBS: &[Job] = &[
    // Two thirds of the operators, more than the limit below requires; all of them take 1.5 times as long.
    Job { environment: &[("OPS_PART", "1/12")], ..right("tinygrad") },
    Job { environment: &[("OPS_PART", "2/12")], ..right("tinygrad") },
    Job { environment: &[("OPS_PART", "4/12")], ..right("tinygrad") },
    Job { environment: &[("OPS_PART", "5/12")], ..right("tinygrad") },
    Job { environment: &[("OPS_PART", "7/12")], ..right("tinygrad") },
    Job { environment: &[("OPS_PART", "8/12")], ..right("tinygrad") },
    Job { environment: &[("OPS_PART", "10/12")], ..right("tinygrad") },
    Job { environment: &[("OPS_PART", "11/12")], ..right("tinygrad") },
    Job { findings: MISUSE, ..right("cudarc") },
    right("numba"),
    Job { findings: &["memory-leak"], ..right("cubecl") },
    Job { findings: &["bounds"], ..right("c") },
    Job {
        arguments: &["race"],
        findings: &["shared-race"],
        places: &["tile[threadIdx.x] = x[threadIdx.x];", "out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];"],
        ..right("c")
    },
    Job {
        arguments: &["race"],
        findings: &["memory-leak", "shared-race"],
        places: &["st.shared.u32", "ld.shared.u32"],
        ..right("cubecl")
    },
];

/// The result of a job.
struct Ran {
    /// What the program printed, on standard output.
    output: String,
    /// What `exec` printed, on standard error.
    text: String,
    report: Value,
    seconds: u64,
}

/// Runs everything and compares the book's table with it, or writes the table.
pub(crate) fn run(part: &Part, bless: bool) -> Result<String, String> {
    let warpproof = program::workspace()?;
    let library = warpproof.with_file_name("libwarpproof_cuda.so");
    let place = target().join("ecosystem");
    fs::create_dir_all(&place).map_err(|error| format!("cannot make {}: {error}", place.display()))?;
    // A program is installed by the first of its runs; the others wait for it.
    let folders: BTreeMap<&str, OnceLock<Result<(), String>>> =
        JOBS.iter().map(|job| (job.folder, OnceLock::new())).collect();
    let outcomes = part.each(cores(), JOBS, |job| {
        let installed = folders.get(job.folder).ok_or("internal error: an unknown folder")?;
        installed.get_or_init(|| set_up(job.folder, &place)).clone()?;
        let ran = job.run(&warpproof, &library, &place)?;
        println!("{}: {} s, {}", job.name(), ran.seconds, ran.output.trim_end().replace('\n', "\n  "));
        job.verify(&ran)?;
        Ok::<Ran, String>(ran)
    });
    let note = outcomes.note("runs of programs");
    let mut ran = Vec::new();
    let mut problems = Vec::new();
    for (index, outcome) in outcomes.found {
        let job = JOBS.get(index).ok_or("internal error: an unknown run")?;
        match outcome {
            Ok(outcome) => ran.push((job, outcome)),
            Err(problem) => problems.push(format!("{}: {problem}", job.name())),
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    if part.is_whole() {
        SECTION.compare_or_write(&table(&ran)?, bless)?;
    }
    Ok(note)
}

/// Installs a program. The network fails now and then; a real failure fails twice.
fn set_up(folder: &str, place: &Path) -> Result<(), String> {
    let start = Instant::now();
    install(folder, place).or_else(|_| install(folder, place))?;
    println!("{folder}: installed and built in {} s", start.elapsed().as_secs());
    Ok(())
}

/// Installs or builds what a program needs.
fn install(folder: &str, place: &Path) -> Result<(), String> {
    let script = root().join("ecosystem").join(folder).join("run");
    let output = Command::new(&script)
        .arg("--build")
        .env("ECOSYSTEM_TARGET", place)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", script.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("cannot install {folder}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

impl Job {
    fn name(&self) -> String {
        let environment = self.environment.iter().map(|(name, value)| format!(" {name}={value}"));
        let arguments = self.arguments.iter().map(|word| format!(" {word}"));
        environment.chain(arguments).fold(self.folder.to_owned(), |name, word| name + &word)
    }

    /// Runs it under `exec`.
    fn run(&self, warpproof: &Path, library: &Path, place: &Path) -> Result<Ran, String> {
        let file = place.join(format!("{}.json", self.name().replace([' ', '/'], "-")));
        // The folder of its sources, so that reports show their lines.
        let folder = root().join("ecosystem").join(self.folder);
        let script = folder.join("run");
        let start = Instant::now();
        let output = Command::new("timeout")
            .args(["--kill-after=10", PATIENCE])
            .arg(warpproof)
            .args(["exec", "--output"])
            .arg(&file)
            .arg("--")
            .arg(script)
            .args(self.arguments)
            .current_dir(folder)
            .env("WARPPROOF_LIBRARY", library)
            .env("ECOSYSTEM_TARGET", place)
            .envs(self.environment.iter().copied())
            .output()
            .map_err(|error| format!("cannot run it: {error}"))?;
        let seconds = start.elapsed().as_secs();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(124) {
            return Err(format!("still running after {PATIENCE} s\n{text}"));
        }
        let report = fs::read_to_string(&file).map_err(|error| format!("no report: {error}\n{text}"))?;
        let report = serde_json::from_str(&report).map_err(|error| format!("no report: {error}"))?;
        // Removed so that the next run does not read it.
        let _gone = fs::remove_file(&file);
        Ok(Ran { output: String::from_utf8_lossy(&output.stdout).into_owned(), text, report, seconds })
    }

    /// Checks that the program ran, and that the report contains exactly the expected findings.
    fn verify(&self, ran: &Ran) -> Result<(), String> {
        let printed = || format!("\n{}{}", ran.output, ran.text);
        if ran.report["program_exit_code"] != 0 {
            return Err(format!("the program ended with {}{}", ran.report["program_exit_code"], printed()));
        }
        if ran.report["launches"] == 0 || ran.report["checked"] != ran.report["launches"] {
            let (all, checked) = (&ran.report["launches"], &ran.report["checked"]);
            return Err(format!("{checked} of {all} launches were checked{}", printed()));
        }
        let found = ran.report["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found: BTreeSet<&str> =
            found.iter().filter_map(|found| found["report"]["code"].as_str()).collect();
        if found != self.findings.iter().copied().collect::<BTreeSet<_>>() {
            return Err(format!("expected findings {:?}, found {found:?}{}", self.findings, printed()));
        }
        match self.places.iter().find(|place| !ran.text.contains(**place)) {
            Some(place) => Err(format!("the report does not show `{place}`{}", printed())),
            None => Ok(()),
        }
    }
}

/// The first number of a line that begins with one, where the rest begins with `what`.
fn count(output: &str, what: &str) -> Option<u64> {
    output.lines().find_map(|line| {
        let (number, rest) = line.split_once(' ')?;
        if rest.starts_with(what) { number.parse().ok() } else { None }
    })
}

/// A count in the output, which must be at least `fewest`.
fn at_least(fewest: u64, output: &str, what: &str) -> Result<u64, String> {
    match count(output, what) {
        Some(found) if found >= fewest => Ok(found),
        Some(found) => Err(format!("expected at least {fewest} {what}, found {found}")),
        None => Err(format!("expected a count of {what} in the output:\n{output}")),
    }
}

/// Forward and backward cases that ops.py counts: "… (555 ran forward, 450 also backward), …".
fn backward(output: &str) -> Option<u64> {
    let (before, _) = output.split_once(" also backward")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// The version that a manifest or a list of wheels pins.
fn version(path: &str, package: &str) -> Result<String, String> {
    let text =
        fs::read_to_string(root().join(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
    let found = text.lines().find_map(|line| {
        let rest = line.strip_prefix(package)?;
        let rest = rest.strip_prefix("==").or_else(|| rest.strip_prefix(" = { version = \"="))?;
        Some(rest.split('"').next().unwrap_or(rest).to_owned())
    });
    found.ok_or_else(|| format!("{path} does not pin a version of {package}"))
}

/// The book's table: program, what ran, what is unsupported.
fn table(ran: &[(&Job, Ran)]) -> Result<String, String> {
    let outputs = |folder: &str, arguments: &[&str]| -> Vec<&str> {
        let chosen = ran.iter().filter(|(job, _)| job.folder == folder && job.arguments == arguments);
        chosen.map(|(_, ran)| ran.output.as_str()).collect()
    };
    let mut cases = (0, 0, 0);
    for output in outputs("tinygrad", &[]) {
        cases.0 += at_least(1, output, "cases")?;
        cases.1 += backward(output).ok_or("expected a count of gradients")?;
        cases.2 += output
            .split_once(" cases of ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok())
            .ok_or("expected a count of operators")?;
    }
    let (all, gradients, operators) = cases;
    if all < 300 {
        return Err(format!("expected at least 300 cases of tinygrad, found {all}"));
    }
    let steps = at_least(50, &outputs("tinygrad", &[]).concat(), "steps:")?;
    let programs = at_least(20, &outputs("cudarc", &[]).concat(), "programs,")?;
    let numba = at_least(20, &outputs("numba", &[]).concat(), "kernels,")?;
    let cubecl = at_least(6, &outputs("cubecl", &[]).concat(), "kernels,")?;
    let c = outputs("c", &[]).concat();
    if let Some(missing) = ["add: ", "sum: ", "errors: as documented"].iter().find(|line| !c.contains(**line))
    {
        return Err(format!("the C program did not print `{missing}`:\n{c}"));
    }
    let pinned =
        |folder: &str, file: &str, package: &str| version(&format!("ecosystem/{folder}/{file}"), package);
    let rows = [
        (
            "cudarc",
            format!("cudarc {}", pinned("cudarc", "Cargo.toml", "cudarc")?),
            format!(
                "{programs} programs that cover the API above, faults and errors that are ignored among them; ten threads on ten \
                 streams for a minute; 100 processes at once"
            ),
            "",
        ),
        (
            "cubecl",
            format!("CubeCL {}", pinned("cubecl", "Cargo.toml", "cubecl")?),
            format!(
                "{cubecl} kernels against the CPU: elementwise, reductions, atomics, a matrix product on tensor cores; a planted race \
                 is found at its PTX lines"
            ),
            "0.11, whose build downloads an LLVM",
        ),
        (
            "tinygrad",
            format!("tinygrad {}, CUDA backend", pinned("tinygrad", "requirements.txt", "tinygrad")?),
            format!(
                "{operators} operators in f32, f16 and bf16 against its CPU backend: {all} cases, {gradients} of them backward too; a \
                 small network trained for {steps} steps through CUDA graphs, with the losses of the CPU"
            ),
            "",
        ),
        (
            "numba",
            format!("numba-cuda {}", pinned("numba", "requirements.txt", "numba-cuda")?),
            format!(
                "{numba} kernels against numpy: shared memory, atomics, warp intrinsics, reductions, float16; with the driver's linker"
            ),
            "nvJitLink was not tried",
        ),
        (
            "c",
            "C against `cuda.h`".to_owned(),
            "vector addition, a reduction, errors as documented; a planted race is found at its CUDA lines"
                .to_owned(),
            "",
        ),
    ];
    let mut table = "| program | what ran | unsupported |\n|---|---|---|\n".to_owned();
    for (folder, program, what, remark) in rows {
        // Functions that the program called and that are not supported, even if the program handled the error.
        let reports =
            ran.iter().filter(|(job, _)| job.folder == folder).map(|(_, ran)| &ran.report["unsupported"]);
        let names = reports.flat_map(|list| list.as_array().map(Vec::as_slice).unwrap_or_default());
        let names: BTreeSet<String> =
            names.filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
        let remark = (!remark.is_empty()).then(|| remark.to_owned());
        let unsupported: Vec<String> = names.into_iter().chain(remark).collect();
        let unsupported = if unsupported.is_empty() { "–".to_owned() } else { unsupported.join(", ") };
        let _ = writeln!(table, "| {program} | {what} | {unsupported} |");
    }
    table.push_str("| PyTorch's own operators | nothing | its wheels contain machine code and no PTX |\n");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(findings: &[&str], exit: i32, text: &str) -> Ran {
        let findings: Vec<Value> =
            findings.iter().map(|code| serde_json::json!({ "report": { "code": code } })).collect();
        let report = serde_json::json!({
            "program_exit_code": exit, "launches": 3, "checked": 3, "findings": findings, "unsupported": ["cuArrayCreate"],
        });
        Ran { output: String::new(), text: text.to_owned(), report, seconds: 0 }
    }

    #[test]
    fn a_finding_too_many_and_one_too_few_fail() {
        let clean = right("numba");
        assert_eq!(clean.verify(&ran(&[], 0, "")), Ok(()));
        assert!(clean.verify(&ran(&["shared-race"], 0, "")).unwrap_err().contains("shared-race"));
        assert!(clean.verify(&ran(&[], 1, "")).unwrap_err().contains("ended with 1"));
        let planted = Job { findings: &["shared-race"], places: &["line"], ..right("c") };
        assert_eq!(planted.verify(&ran(&["shared-race"], 0, "at a line")), Ok(()));
        assert!(planted.verify(&ran(&[], 0, "at a line")).is_err());
        assert!(planted.verify(&ran(&["shared-race"], 0, "")).unwrap_err().contains("does not show `line`"));
        let mut unchecked = ran(&[], 0, "");
        unchecked.report["checked"] = 2.into();
        assert!(clean.verify(&unchecked).unwrap_err().contains("2 of 3"));
    }

    #[test]
    fn counts_are_taken_from_what_programs_print_and_may_not_shrink() {
        let output = "50 steps: loss 1 to 0\n555 cases of 185 operators (555 ran forward, 450 also backward), 0 failed, 9 s\n";
        assert_eq!(at_least(300, output, "cases"), Ok(555));
        assert!(at_least(556, output, "cases").unwrap_err().contains("at least 556"));
        assert_eq!(count(output, "steps:"), Some(50));
        assert!(at_least(1, output, "kernels").is_err());
        assert_eq!(backward(output), Some(450));
    }

    #[test]
    fn pinned_versions_are_read() {
        for (path, package) in [
            ("ecosystem/cudarc/Cargo.toml", "cudarc"),
            ("ecosystem/cubecl/Cargo.toml", "cubecl"),
            ("ecosystem/tinygrad/requirements.txt", "tinygrad"),
            ("ecosystem/numba/requirements.txt", "numba-cuda"),
        ] {
            let version = version(path, package).unwrap();
            assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
        }
        assert!(version("ecosystem/numba/requirements.txt", "nothing").is_err());
    }
}
