//! How a fleet scales: claims by the length of the queue, evaluations by the number of workers. All figures are
//! *measured*, with everything on one machine.

use std::process::Command;

use crate::section::Section;

const SECTION: Section = Section { page: "docs/scale.md", name: "figures", task: "bench fleet" };

/// Measures with example programs of the fleet's crate, so that xtask itself does not depend on the server.
pub(crate) fn run(evaluations: u32, bless: bool) -> Result<(), String> {
    cargo(&["build", "--package", "warpproof", "--package", "warpproof-fleet", "--bins", "--examples"])?;
    let release = crate::target().join("release");
    let program = release.join("warpproof").display().to_string();
    let example = |name: &str, arguments: &[&str]| -> Result<String, String> {
        let output = Command::new(release.join("examples").join(name))
            .args(arguments)
            .output()
            .map_err(|error| format!("{name}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{text}");
        if output.status.success() {
            Ok(text)
        } else {
            Err(format!("{name}: the measurement of the fleet failed"))
        }
    };
    let claims = example("claims", &[])?;
    let growth = example("evaluations", &[&program, &evaluations.to_string()])?;
    if !bless {
        return Ok(());
    }
    let text = format!(
        "On {} cores, {evaluations} evaluations of the smallest task (`crates/fleet/examples/doubled`), durable \
         (`fsync` and `synchronous_commit` on), *measured* in one run.\n\n{claims}\n{growth}",
        crate::cores(),
    );
    SECTION.compare_or_write(&text, true)
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    crate::announce_release();
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(crate::root())
        .args(arguments)
        .args(["--quiet", "--locked", "--release"])
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("cargo could not build the fleet".to_owned()) }
}
