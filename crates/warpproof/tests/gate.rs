//! `warpproof gate` on the attention ladder and on references from files and Python, as a user runs it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;
use std::path::Path;

use bench::Bench;
use serde_json::Value;
use warpproof_kernels::ladder::LADDER;

/// The ladder's own task without the slow shapes.
fn small_attention() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/attention.toml");
    let text = fs::read_to_string(path).unwrap();
    let mut kept = Vec::new();
    for section in text.split("\n\n") {
        let long = ["mission", "historical", "long", "many-rows"]
            .iter()
            .any(|name| section.contains("[[shape]]") && section.contains(&format!("name = \"{name}\"")));
        if !long {
            kept.push(section.to_owned());
        }
    }
    let text = kept.join("\n\n");
    let text = text.replace("\"mission\", \"historical\", \"small\"", "\"small\"").replace(", \"long\"", "");
    let text = text
        .replace(", \"many-rows\"", "")
        .replace("\"mission\", ", "")
        .replace("[\"mission\"]", "[\"small\"]");
    let text = text.replace("[1, 17, 31, 257]", "[1, 17]");
    text.replace("s = 257", "s = 65").replace("s = [1, 300]", "s = [1, 64]")
}

fn verdicts(run: &Value) -> Vec<(String, String)> {
    let all = run["candidates"].as_array().unwrap().iter();
    all.map(|one| {
        (one["candidate"].as_str().unwrap().to_owned(), one["verdict"].as_str().unwrap().to_owned())
    })
    .collect()
}

#[test]
fn toolchain_the_ladder_is_judged_once_and_then_known() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("attention.toml"), small_attention()).unwrap();
    let gate = ["gate", "attention.toml", "--all", "--json"];
    let first = bench.run(gate).exits(0).json();
    let judged = verdicts(&first);
    // And a control of n4, `n4-single-chain`.
    assert_eq!(judged.len(), LADDER.len() + 1);
    assert!(judged.iter().all(|(_, verdict)| verdict == "PROVISIONAL"), "{judged:?}");
    assert!(first["steps_done"].as_u64().unwrap() > 0);

    let again = bench.run(gate).exits(0).json();
    assert_eq!(verdicts(&again), judged);
    assert_eq!((again["steps_done"].as_u64(), again["unchanged"].as_bool()), (Some(0), Some(true)));
    let said = bench.run(["gate", "attention.toml"]).exits(0);
    assert!(said.err.contains("nothing to do: results of all "), "{}", said.err);

    // The reports of the ladder are made from its ledger.
    let history = bench.run(["report", "history"]).exits(0);
    let summary = bench.run(["report", "summary", "--format", "markdown"]).exits(0);
    for (candidate, _) in &judged {
        assert!(history.out.contains(candidate), "{}", history.out);
        assert!(summary.out.contains(candidate), "{}", summary.out);
    }
    assert!(bench.run(["report", "validation"]).exits(0).out.contains("roofline floor"));
}

/// The figures of a stage in the records of a ledger, by candidate.
fn figures(bench: &Bench, stage: &str) -> Vec<(String, Vec<Value>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(bench.dir.path().join(".warpproof/ledger/segments")).unwrap() {
        for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let body = serde_json::from_str::<Value>(line).unwrap()["body"].clone();
            if body["kind"] == "step" && body["stage"] == stage {
                let figures = body["figures"].as_array().cloned().unwrap_or_default();
                found.push((body["candidate"].as_str().unwrap().to_owned(), figures));
            }
        }
    }
    found
}

#[test]
fn toolchain_every_option_of_attention_passes_and_wrong_outputs_are_refused() {
    let bench = Bench::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/attention-options.toml");
    let text = fs::read_to_string(path).unwrap();
    fs::write(bench.dir.path().join("options.toml"), &text).unwrap();
    let run = bench.run(["gate", "options.toml", "--all", "--json"]).exits(0).json();
    let judged = verdicts(&run);
    assert_eq!(judged.len(), text.matches("[[candidate]]").count());
    assert!(judged.iter().all(|(_, verdict)| verdict == "PROVISIONAL"), "{judged:?}");

    // Outputs that are wrong on purpose, and those of a kernel that ignores an option.
    let mut refused = std::collections::BTreeMap::new();
    for (_, figures) in figures(&bench, "correct") {
        for figure in figures {
            if let Some(name) = figure["name"].as_str().unwrap().strip_prefix("cases that refuse ") {
                *refused.entry(name.to_owned()).or_insert(0.0) += figure["value"].as_f64().unwrap();
            }
        }
    }
    for wrong in [
        "zeros",
        "mean of V",
        "copy of Q",
        "a tile skipped",
        "the tail skipped",
        "the causal mask ignored",
        "the window ignored",
        "the soft cap ignored",
        "the sinks ignored",
        "ALiBi ignored",
        "bf16 ignored",
        "scales ignored",
        "smoothing ignored",
        "not corrected",
    ] {
        assert!(refused.get(wrong).is_some_and(|count| *count >= 1.0), "{wrong}: {refused:?}");
    }
    let findings: f64 = figures(&bench, "checks")
        .iter()
        .flat_map(|(_, figures)| figures)
        .filter(|figure| figure["name"] == "findings")
        .map(|figure| figure["value"].as_f64().unwrap())
        .sum();
    assert!(findings.abs() < 0.5, "{findings} findings");
}

const TASK: &str = r#"
name = "doubled"
version = 1
description = "y = 2 x"
operator = "custom"
dtypes = ["f32"]
seeds = [1, 2]
distributions = ["normal", "structured"]

[[shape]]
name = "main"
axes = { n = 6 }

[[input]]
name = "x"
dtype = "each"
dims = ["n"]

[[output]]
name = "y"
dtype = "each"
dims = ["n"]

[reference]
REFERENCE

[tolerance]
policy = "stated"
absolute = 0.0
relative = 1e-6
rmse = 1e-6
bias = 1e-6
non_finite = "refuse"
derivation = "doubling is exact"

[target]
architectures = ["sm_89"]
devices = ["l4"]

[[gate]]
stage = "build"

[[gate]]
stage = "correct"

[[candidate]]
name = "doubled"
source = "doubled.cu"

[[candidate.launch]]
kernel = "doubled"
grid = 1
block = 32
arguments = ["x", "y", { value = "n", dtype = "i32" }]
"#;

fn kernel(factor: &str) -> String {
    format!(
        "extern \"C\" __global__ void doubled(const float* x, float* y, int n) {{\n    \
         if (threadIdx.x < n) y[threadIdx.x] = {factor} * x[threadIdx.x];\n}}\n"
    )
}

#[test]
fn a_kernel_is_no_task() {
    let bench = Bench::bare();
    for name in ["a.cu", "b.ptx", "C.CU"] {
        let run = bench.run(["gate", name]).exits(2);
        assert!(run.err.contains(&format!("found a kernel: {name}")), "{}", run.err);
        assert!(run.err.contains(&format!("`warpproof init {name}` to write a task file")), "{}", run.err);
    }
}

#[test]
fn toolchain_a_reference_in_python_decides() {
    let bench = Bench::new();
    let at = |name: &str| bench.dir.path().join(name);
    let reference = "python = \"reference.py\"\nfunction = \"reference\"";
    fs::write(at("task.toml"), TASK.replace("REFERENCE", reference)).unwrap();
    let python = "def reference(x, n):\n    return [2 * x[i] for i in range(n)]\n";
    fs::write(at("reference.py"), python).unwrap();
    fs::write(at("doubled.cu"), kernel("2.0f")).unwrap();
    let run = bench.run(["gate", "task.toml", "--json"]).exits(0).json();
    assert_eq!(verdicts(&run)[0].1, "PROVISIONAL", "{run:#}");
    fs::write(at("doubled.cu"), kernel("2.01f")).unwrap();
    let run = bench.run(["gate", "task.toml", "--json"]).exits(1).json();
    assert!(run["candidates"][0]["reason"].as_str().unwrap().starts_with("correct: main, "), "{run:#}");
    // The reference is part of the task's content: it may change only together with the version.
    fs::write(at("reference.py"), python.replace('2', "2.01")).unwrap();
    let refused = bench.run(["gate", "task.toml"]).exits(2);
    assert!(
        refused.err.contains("the task's reference changed, but its version is still 1"),
        "{}",
        refused.err
    );
    let second = fs::read_to_string(at("task.toml")).unwrap().replace("version = 1", "version = 2");
    fs::write(at("task.toml"), second).unwrap();
    bench.run(["gate", "task.toml", "--json"]).exits(0);
    // A failing reference is an error in the task, and the step is repeated.
    let third = fs::read_to_string(at("task.toml")).unwrap().replace("version = 2", "version = 3");
    fs::write(at("task.toml"), third).unwrap();
    fs::write(at("reference.py"), "def reference(x, n):\n    return x.nothing\n").unwrap();
    bench.run(["gate", "task.toml", "--json"]).exits(2);
    fs::write(at("reference.py"), python.replace('2', "2.01")).unwrap();
    bench.run(["gate", "task.toml", "--json"]).exits(0);
}

/// A `.npy` file of f32.
fn npy(values: &[f32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", values.len());
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn toolchain_a_reference_in_files_decides() {
    let bench = Bench::new();
    let at = |name: &str| bench.dir.path().join(name);
    let reference =
        "[[reference.case]]\nshape = \"main\"\ninputs = { x = \"x.npy\" }\noutputs = { y = \"y.npy\" }";
    fs::write(at("task.toml"), TASK.replace("REFERENCE", reference)).unwrap();
    let x = [1.0, -2.0, 3.5, 0.0, 100.0, -0.25];
    fs::write(at("x.npy"), npy(&x)).unwrap();
    fs::write(at("y.npy"), npy(&x.map(|value| 2.0 * value))).unwrap();
    fs::write(at("doubled.cu"), kernel("2.0f")).unwrap();
    let run = bench.run(["gate", "task.toml", "--json"]).exits(0).json();
    assert_eq!(verdicts(&run)[0].1, "PROVISIONAL", "{run:#}");
    let version = |from: &str, to: &str| {
        let text = fs::read_to_string(at("task.toml")).unwrap().replace(from, to);
        fs::write(at("task.toml"), text).unwrap();
    };
    fs::write(at("y.npy"), npy(&x)).unwrap();
    bench.run(["gate", "task.toml"]).exits(2);
    version("version = 1", "version = 2");
    bench.run(["gate", "task.toml", "--json"]).exits(1);
    fs::write(at("y.npy"), npy(&x[1..])).unwrap();
    version("version = 2", "version = 3");
    let run = bench.run(["gate", "task.toml", "--json"]).exits(2).json();
    assert!(run["candidates"][0]["reason"].as_str().unwrap().contains("y.npy"), "{run:#}");
}
