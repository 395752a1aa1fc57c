//! Dependencies between the crates of the workspace follow the layers of ARCHITECTURE.md.

use super::File;

/// The allowed dependencies of each crate, from the bottom up; the picture is in ARCHITECTURE.md. Dependencies of tests count too.
const MAY_USE: &[(&str, &[&str])] = &[
    ("ptx", &[]),
    ("embed", &[]),
    ("stubs", &[]),
    ("sandbox", &[]),
    ("toolchain", &["ptx", "sandbox"]),
    ("num", &[]),
    ("sim", &["ptx", "num"]),
    ("count", &["num", "sim"]),
    ("check", &["num", "sim", "count"]),
    ("diagnostic", &["check"]),
    ("launch", &["sim", "count", "check"]),
    ("tolerance", &["num"]),
    ("model", &["ptx", "sim", "count"]),
    ("driver", &["ptx", "sim", "count", "check", "diagnostic", "model", "stubs"]),
    ("runtime", &["driver", "sim", "check", "toolchain", "stubs"]),
    ("speed", &["num"]),
    ("gpu", &["launch", "speed"]),
    ("kernels", &["ptx", "toolchain", "num", "sim", "count", "launch", "tolerance", "model"]),
    ("attention", &["kernels", "model"]),
    ("task", &["toolchain", "num", "check", "model", "kernels"]),
    ("init", &["ptx", "num", "sim", "model", "task"]),
    ("evidence", &["tolerance", "speed", "task"]),
    ("report", &["diagnostic", "model", "speed", "evidence"]),
    ("explain", &["toolchain", "sim", "count", "model", "report"]),
    ("ladder", &["toolchain", "sim", "count", "launch", "model", "kernels", "task", "evidence", "explain"]),
    (
        "gate",
        &[
            "ptx",
            "sandbox",
            "toolchain",
            "num",
            "sim",
            "count",
            "check",
            "launch",
            "tolerance",
            "model",
            "gpu",
            "speed",
            "kernels",
            "task",
            "evidence",
            "explain",
        ],
    ),
    ("fleet-client", &["sandbox", "toolchain", "task", "evidence", "gate"]),
    (
        "warpproof",
        &[
            "ptx",
            "sandbox",
            "toolchain",
            "num",
            "sim",
            "count",
            "check",
            "diagnostic",
            "model",
            "runtime",
            "speed",
            "kernels",
            "task",
            "init",
            "evidence",
            "report",
            "explain",
            "ladder",
            "gate",
            "fleet-client",
            "embed",
        ],
    ),
    // The server's program uses the command line's reports and flags; the command line does not depend on the server.
    ("fleet", &["sandbox", "toolchain", "task", "evidence", "report", "gate", "fleet-client", "warpproof"]),
];

pub(super) fn point_down(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some((_, below)) = MAY_USE.iter().find(|(above, _)| *above == name) else {
            found.push(file.at(
                1,
                &format!("`{name}` is not in the list of crates: add it to xtask/src/tidy/arrows.rs"),
            ));
            continue;
        };
        for (line, target) in dependencies(&file.text) {
            if !below.contains(&target) {
                found.push(file.at(line, &format!("`{name}` must not depend on `{target}`")));
            }
        }
    }
    found
}

/// The workspace's own crates among the dependencies of a manifest, with their lines.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section.ends_with("dependencies");
            // [dependencies.warpproof-sim]
            if let Some((_, name)) = section.split_once("dependencies.warpproof-") {
                found.push((index + 1, name));
            }
        } else if inside && let Some(rest) = line.trim_start().strip_prefix("warpproof") {
            let end = rest.find(['.', ' ', '=']).unwrap_or(rest.len());
            let name = rest.get(..end).unwrap_or_default();
            found.push((index + 1, name.strip_prefix('-').unwrap_or("warpproof")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{super::tests::file, *};

    fn errors(name: &str, manifest: &str) -> usize {
        point_down(&[file(&format!("crates/{name}/Cargo.toml"), manifest)]).len()
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        assert_eq!(errors("ptx", "[dependencies]\nwarpproof-sim.workspace = true\n"), 1);
        assert_eq!(errors("sim", "[dev-dependencies]\nwarpproof-toolchain = { path = \"x\" }\n"), 1);
        assert_eq!(errors("sim", "[target.'cfg(unix)'.dependencies]\nwarpproof-gate.workspace = true\n"), 1);
        assert_eq!(errors("sim", "[dependencies.warpproof-model]\nworkspace = true\n"), 1);
        assert_eq!(errors("gate", "[dependencies]\nwarpproof.workspace = true\n"), 1);
        assert_eq!(errors("warpproof", "[dependencies]\nwarpproof-fleet.workspace = true\n"), 1);
        assert_eq!(errors("fleet-client", "[dependencies]\nwarpproof-fleet = { path = \"x\" }\n"), 1);
    }

    #[test]
    fn an_arrow_that_points_down_is_not() {
        assert_eq!(errors("model", "[dependencies]\nserde = \"1\"\nwarpproof-sim.workspace = true\n"), 0);
        assert_eq!(errors("ptx", "[package]\nname = \"warpproof-ptx\"\n[features]\nwarpproof-sim = []\n"), 0);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(errors("misc", "[package]\n"), 1);
    }

    #[test]
    fn the_table_itself_points_down() {
        for (index, (name, below)) in MAY_USE.iter().enumerate() {
            for target in *below {
                let place = MAY_USE.iter().position(|(other, _)| other == target);
                assert!(place.is_some_and(|place| place < index), "{name} → {target}");
            }
        }
    }
}
