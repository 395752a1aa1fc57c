//! The gate's stages `counters` and `model` on the softmax task: figures, limits and regressions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;
use std::path::Path;

use bench::{Bench, Run};
use serde_json::Value;

/// The softmax task with only the stages build, counters and model; `counters` adds keys to its gate.
fn task(bench: &Bench, counters: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks");
    let text = fs::read_to_string(root.join("softmax.toml")).unwrap();
    let mut kept = String::new();
    for section in text.split_inclusive("\n\n") {
        let other = ["budget", "correct", "checks", "speed"];
        if !other.iter().any(|stage| section.contains(&format!("stage = \"{stage}\""))) {
            kept.push_str(section);
        }
    }
    assert_eq!(kept.matches("[[gate]]").count(), 3, "{kept}");
    let kept = kept.replace("stage = \"counters\"\n", &format!("stage = \"counters\"\n{counters}\n"));
    fs::write(bench.dir.path().join("softmax.toml"), kept).unwrap();
    fs::create_dir_all(bench.dir.path().join("softmax")).unwrap();
    fs::copy(root.join("softmax/rows.cu"), bench.dir.path().join("softmax/rows.cu")).unwrap();
}

fn gate(bench: &Bench) -> Run {
    bench.run(["gate", "softmax.toml", "--json"])
}

/// A figure of a stage of a candidate.
#[track_caller]
fn figure(json: &Value, candidate: &str, stage: &str, name: &str) -> Value {
    let judged = json["candidates"].as_array().unwrap();
    let one = judged.iter().find(|one| one["candidate"] == candidate).unwrap();
    let step = one["stages"].as_array().unwrap().iter().find(|step| step["stage"] == stage).unwrap();
    let figure = step["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("{step:#}")).clone()
}

#[test]
fn toolchain_counters_are_figures_and_the_model_predicts_from_them() {
    let bench = Bench::new();
    task(&bench, "");
    let json = gate(&bench).exits(0).json();
    let value =
        |candidate: &str, name: &str| figure(&json, candidate, "counters", name)["value"].as_f64().unwrap();
    // 16 rows of 128 sectors: three passes read and one writes; fused, two and one.
    assert!((value("rows", "global sectors") - 16.0 * 128.0 * 4.0).abs() < 0.5);
    assert!((value("rows-fused", "global sectors") - 16.0 * 128.0 * 3.0).abs() < 0.5);
    assert!(value("rows", "local bytes").abs() < 0.5);
    let one = figure(&json, "rows", "counters", "warp instructions");
    assert_eq!((&one["kind"], &one["at"]), (&"counted".into(), &"main".into()));
    let latency = figure(&json, "rows", "model", "latency");
    assert_eq!(
        (&latency["kind"], &latency["unit"], &latency["at"]),
        (&"predicted".into(), &"us".into(), &"main".into())
    );
    let (latency, floor) =
        (latency["value"].as_f64().unwrap(), figure(&json, "rows", "model", "roofline floor"));
    assert!(latency > floor["value"].as_f64().unwrap());
}

#[test]
fn toolchain_a_regression_is_exact() {
    let bench = Bench::new();
    // Three of four passes over the rows remain.
    let reads = "{ figure = \"global sectors\", at_most = 0.75, source = \"a pass less\" }";
    task(&bench, &format!("regression = [{reads}]"));
    let json = gate(&bench).exits(0).json();
    let ratio = figure(&json, "rows-fused", "counters", "global sectors, of the baseline's");
    assert!((ratio["value"].as_f64().unwrap() - 0.75).abs() < 1e-12, "{ratio}");
    // The baseline is not compared with itself.
    let less = reads.replace("0.75", "0.7499");
    task(&bench, &format!("regression = [{less}]"));
    let json = gate(&bench).exits(1).json();
    let verdict = |name: &str| {
        let judged = json["candidates"].as_array().unwrap();
        judged.iter().find(|one| one["candidate"] == name).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("rows"), "PROVISIONAL");
    assert_eq!(verdict("rows-fused"), "REJECT");
    task(&bench, "regression = [{ figure = \"sighs\", at_most = 1.0, source = \"none\" }]");
    gate(&bench).exits(2);
}

#[test]
fn toolchain_a_limit_is_exact() {
    let bench = Bench::new();
    let limit = |most: u32| {
        format!("threshold = [{{ figure = \"global sectors\", at_most = {most}, source = \"four passes\" }}]")
    };
    task(&bench, &limit(16 * 128 * 4));
    gate(&bench).exits(0);
    task(&bench, &limit(16 * 128 * 4 - 1));
    gate(&bench).exits(1);
}
