//! The same products and copies on PoCL, an OpenCL for processors, if it is installed: a C program that is compiled here.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::subject::Sizes;

const PROGRAM: &str = include_str!("pocl.c");

/// The ways in which PoCL turns work-groups into loops; the first is its default. Which is the fastest depends on the processor: the
/// default vectorizes, and takes three times as long as the plain loops on some.
const METHODS: [&str; 2] = ["loopvec", "loops"];

/// Seconds of processor time by kernel, each by the fastest method; `None` without a C compiler, OpenCL or PoCL.
pub(super) fn seconds(times: u32) -> Result<Option<BTreeMap<String, f64>>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (source, program) = (folder.path().join("pocl.c"), folder.path().join("pocl"));
    fs::write(&source, PROGRAM).map_err(|error| error.to_string())?;
    let compiled = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source).arg("-lOpenCL").output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        return Ok(None);
    }
    let arguments = [Sizes::FULL.side, Sizes::FULL.vectors, times].map(|number| number.to_string());
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    for method in METHODS {
        let output = Command::new(&program)
            .args(&arguments)
            // One worker, as the software GPU has in these runs; compiled kernels are not left in the user's cache.
            .env("POCL_MAX_PTHREAD_COUNT", "1")
            .env("POCL_WORK_GROUP_METHOD", method)
            .env("POCL_CACHE_DIR", folder.path().join(method))
            .output()
            .map_err(|error| error.to_string())?;
        match output.status.code() {
            Some(0) => {}
            Some(2) => return Ok(None),
            _ => return Err(format!("PoCL failed:\n{}", String::from_utf8_lossy(&output.stderr))),
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let parsed = lines.lines().map(|line| {
            let (name, seconds) = line.split_once(' ')?;
            Some((name, seconds.parse::<f64>().ok()?))
        });
        let parsed: Vec<_> =
            parsed.collect::<Option<_>>().ok_or_else(|| format!("expected seconds, found `{lines}`"))?;
        for (name, seconds) in parsed {
            best.entry(name.to_owned()).and_modify(|best| *best = best.min(seconds)).or_insert(seconds);
        }
    }
    Ok(Some(best))
}
