//! Cost of a program with many small launches under `warpproof exec`, compared with the same launches made directly on the software GPU.
//!
//! Both are processes, measured in turns; the fastest of each counts. The time is that of the processor, with child processes, because other
//! load of the machine changes it less. All figures are *measured*.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

/// Launches of a run, and runs.
const LAUNCHES: &str = "10000";
const RUNS: u32 = 5;

/// How many times the time of the direct launches the program may take.
const MOST: f64 = 1.3;

const PROGRAM: &str = include_str!("launches.cu");

/// Builds the programs for release, and measures.
pub(crate) fn run(json: bool) -> Result<(), String> {
    crate::announce_release();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(crate::root()).args(["build", "--quiet", "--locked", "--release"]);
    build.args(["--package", "warpproof", "--package", "warpproof-runtime"]);
    done(build.args(["--lib", "--bin", "warpproof", "--example", "launches"]))?;
    let built = crate::target().join("release");
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("launches.cu"), PROGRAM).map_err(|error| error.to_string())?;
    let warpproof = built.join("warpproof");
    for flags in
        [["launches.cu", "-o", "launches"].as_slice(), &["-ptx", "launches.cu", "-o", "launches.ptx"]]
    {
        done(Command::new(&warpproof).current_dir(folder.path()).arg("nvcc").args(flags))?;
    }
    let mut best = [f64::INFINITY; 2];
    for _ in 0..RUNS {
        let mut program = Command::new(&warpproof);
        program.args(["exec", "--quiet", "--"]).arg(at("launches")).arg(LAUNCHES);
        let mut direct = Command::new(built.join("examples/launches"));
        direct.arg(at("launches.ptx")).args(["add", LAUNCHES]);
        for (best, command) in best.iter_mut().zip([program, direct]) {
            *best = best.min(seconds(command, folder.path())?);
        }
    }
    let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
    let [exec, direct] = best.map(rounded);
    let ratio = rounded(best[0] / best[1]);
    if json {
        println!(
            "{}",
            json!({ "launches": LAUNCHES, "exec_s": exec, "direct_s": direct, "exec_to_direct": ratio })
        );
    } else {
        println!(
            "{LAUNCHES} launches: {exec} s under `exec`, {direct} s directly, ratio {ratio} (processor time, best of {RUNS}, measured)"
        );
    }
    if ratio > MOST { Err(format!("the ratio is {ratio}, more than {MOST}")) } else { Ok(()) }
}

/// The processor's time of a process that succeeds.
fn seconds(mut command: Command, folder: &Path) -> Result<f64, String> {
    let start = of_children()?;
    done(command.current_dir(folder))?;
    Ok(of_children()? - start)
}

/// Seconds of the processor that child processes have used, in user and system mode.
fn of_children() -> Result<f64, String> {
    // Fields 16 and 17 of the line, in hundredths of a second; the second field is a name in parentheses.
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|error| error.to_string())?;
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(13).take(2));
    let ticks: Option<Vec<u32>> = fields.and_then(|fields| fields.map(|field| field.parse().ok()).collect());
    match ticks.as_deref() {
        Some([user, system]) => Ok(f64::from(user + system) / 100.0),
        _ => Err("expected the times of child processes in /proc/self/stat".to_owned()),
    }
}

/// Runs a command that must succeed.
fn done(command: &mut Command) -> Result<(), String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}
