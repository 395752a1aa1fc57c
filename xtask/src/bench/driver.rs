//! Cost of a launch through the driver, compared with a direct call of the software GPU; and the time of two threads that launch
//! at the same time, each into its own stream, compared with that of one thread.
//!
//! An example program of the driver crate measures both, alternating, in one process, because the API is a C API. All figures are
//! *measured*.

use std::process::Command;

use serde_json::{Map, Value, json};

/// Microseconds by which a launch through the library may be slower than the same launch without it.
const MOST: f64 = 20.0;

/// The time of two threads that launch at once may be this many times that of one.
const MOST_TIMES: f64 = 1.2;

/// Measures every figure, with checks and without.
pub(crate) fn run(json: bool) -> Result<(), String> {
    crate::announce_release();
    let mut figures = Map::new();
    for (name, checks) in [("checked", "all"), ("unchecked", "none")] {
        for (figure, value) in take(checks)? {
            figures.insert(format!("{name}_{figure}"), value);
        }
    }
    if json {
        println!("{}", json!(figures));
    } else {
        println!("best of each on this machine, measured, in microseconds or as a ratio:");
        for (name, value) in &figures {
            println!("  {name:32} {value:>8}");
        }
    }
    let above: Vec<_> = figures.iter().filter(|(name, _)| name.ends_with("above_us")).collect();
    if above.len() != 4 || above.iter().any(|(_, value)| value.as_f64().is_none()) {
        return Err("expected four figures: two kernels, with checks and without".to_owned());
    }
    let slow = |(name, value): &(&String, &Value)| {
        name.ends_with("two_threads_to_one") && value.as_f64().is_none_or(|times| times > MOST_TIMES)
    };
    if let Some((name, value)) = figures.iter().find(slow) {
        return Err(format!("{name} is {value}, more than {MOST_TIMES}"));
    }
    match above.iter().find(|(_, value)| value.as_f64() > Some(MOST)) {
        Some((name, value)) => Err(format!("{name} is {value}, more than {MOST}")),
        None => Ok(()),
    }
}

/// The figures under these checks.
fn take(checks: &str) -> Result<Map<String, Value>, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(crate::root())
        .args([
            "run",
            "--quiet",
            "--locked",
            "--release",
            "--package",
            "warpproof-driver",
            "--example",
            "launch_cost",
        ])
        .env("WARPPROOF_CHECKS", checks)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_str(&text).map_err(|error| format!("no figures: {error}: {text}"))
}
