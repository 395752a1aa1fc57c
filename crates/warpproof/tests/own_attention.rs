//! An attention kernel that is not one of the built-in variants, from `init` to a verdict: first with a race, then fixed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and reports what it found")]

mod bench;

use std::fs;
use std::path::Path;

use bench::Bench;

/// The barrier between the scores and the softmax, which reads scores of two warps.
const BARRIER: &str = "__syncthreads();  // the scores of a row come from two warps";

/// The number of the first line that contains a text.
fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).unwrap() + 1
}

#[test]
fn toolchain_a_race_is_found_at_its_lines_and_the_fixed_kernel_passes() {
    let bench = Bench::new();
    let path = |name: &str| bench.dir.path().join(name);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/own/attention.cu");
    let fixed = fs::read_to_string(from).unwrap();
    let racy = fixed.replace(BARRIER, "");
    assert_ne!(racy, fixed);
    fs::write(path("attention.cu"), &racy).unwrap();

    // Outputs of the racy kernel confirm nothing, so the format stays a question.
    let init = || bench.run(["init", "--operator", "attention", "attention.cu", "--force"]).exits(0).out;
    assert!(init().contains("No trial run agreed with attention"));
    let gate = || bench.run(["gate", "attention.toml", "--ledger", "ledger"]);
    let small = || {
        let text = fs::read_to_string(path("attention.toml")).unwrap();
        let (before, rest) = text.split_once("[[shape]]\nname = \"mission\"").unwrap();
        let (_, rest) = rest.split_once("# Tensors for arguments").unwrap();
        let text = [before, "# Tensors for arguments", rest].concat();
        let text = text.replace("seeds = [0, 1, 2]", "seeds = [0]").replace("schedules = 4", "schedules = 2");
        fs::write(path("attention.toml"), text).unwrap();
    };
    small();
    let rejected = gate().exits(1).out;
    let (write, read) = (line_of(&racy, "store_matrix_sync(sS"), line_of(&racy, "const float a = low"));
    assert!(rejected.contains("REJECT"), "{rejected}");
    assert!(rejected.contains("shared-race"), "{rejected}");
    for line in [write, read] {
        assert!(rejected.contains(&format!("attention.cu:{line}: ")), "line {line}:\n{rejected}");
    }

    // The command that the gate prints shows the same race.
    let command = rejected.split_once("reproduce: warpproof ").unwrap().1.lines().next().unwrap();
    let again = bench.run(command.split_whitespace()).exits(1);
    assert!(again.err.contains("shared-race") || again.out.contains("shared-race"), "{}", again.err);

    fs::write(path("attention.cu"), &fixed).unwrap();
    let said = init();
    assert!(said.contains("format = linear8, scales = head, layout = bhsd, because outputs agree"), "{said}");
    assert!(said.contains("grid = [ceil(s / 32), h, b]"), "{said}");
    small();
    let passed = gate().exits(0).out;
    assert!(passed.contains("PROVISIONAL"), "{passed}");

    // The comments of the source mark the phases of the prediction.
    let explained = bench.run(["explain", "--task", "attention.toml", "--format", "json"]).exits(0).json();
    let phases = explained["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "Q.K", "softmax", "P.V", "store", "other"]);
    let shares: Vec<f64> = phases.iter().map(|phase| phase["share"].as_f64().unwrap()).collect();
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    assert!(shares[..5].iter().all(|share| *share > 0.0), "{shares:?}");
}
