//! Tasks that several tests use.
#![allow(dead_code, reason = "each of the tests that share this uses a part of it")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::Body;

use crate::bench::Bench;

/// y = 2 x + 1, timed against the candidate `slow`; each test adds its own candidates.
pub(crate) const SCALED_ADD: &str = r#"
name = "scaled-add"
version = 1
operator = "elementwise"
dtypes = ["f32"]
seeds = [1]
distributions = ["normal"]
input = [{ name = "x", dtype = "each", dims = ["m"] }]
output = [{ name = "y", dtype = "each", dims = ["m"] }]
shape = [{ name = "main", axes = { m = 96 } }]
reference = { expression = "2 * x + 1", output = "y" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }, { stage = "speed" }]
baseline = [{ candidate = "slow", role = "speed" }]

[tolerance]
policy = "derived"
accumulate = "f32"
non_finite = "refuse"
derivation = "one multiplication and one addition in f32"

[timing]
l2 = ["warm"]
pairs = 40
confidence = 0.95
reduction = { at_least = 0.05, source = "a test" }
grades = { good = 0.05, excellent = 0.2, outstanding = 0.4, source = "a test" }
"#;

/// Writes the example of the book with a smaller space, and with replacements in its text. CHEAT skips the
/// last tile of the sum, which is faster and wrong; IDLE has no effect; the largest HOG needs more shared
/// memory than a block can have.
pub(crate) fn write_sgemm(bench: &Bench, tiles: &str, replaced: &[(&str, &str)]) {
    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/tune");
    let folder = bench.dir.path().join("sgemm");
    fs::create_dir(&folder).unwrap();
    let kernel = fs::read_to_string(tasks.join("sgemm/tiled.cu")).unwrap();
    let kernel = kernel.replace("depth < k; depth", "depth + (CHEAT ? BK : 0) < k; depth").replace(
        "float sum[TM][TN] = {};",
        "__shared__ char hog[HOG];\n    if (k == 0) c[0] = hog[m];\n    float sum[TM][TN] = {};",
    );
    fs::write(folder.join("tiled.cu"), kernel).unwrap();
    let text = fs::read_to_string(tasks.join("sgemm.toml")).unwrap();
    let (head, _) = text.split_once("[space.values]").unwrap();
    let mut head = head
        .replace("m = 256, n = 256, k = 128", "m = 64, n = 64, k = 32")
        .replace("UNROLL = 4 }", "UNROLL = 4, CHEAT = 0, IDLE = 0, HOG = 16 }")
        .replace("distributions = [\"normal\", \"wide\", \"structured\"]", "distributions = [\"normal\"]");
    for (old, new) in replaced {
        assert!(head.contains(old), "{old}");
        head = head.replace(old, new);
    }
    let space =
        format!("[space.values]\n{tiles}\nPAD = [0, 4]\nCHEAT = [0, 1]\nIDLE = [0, 1]\nHOG = [16, 60000]\n");
    fs::write(bench.dir.path().join("task.toml"), head + &space).unwrap();
}

/// The content of a study, without the names of runs.
pub(crate) fn table(study: &Value) -> Value {
    let mut study = study.clone();
    if let Some(winner) = study["winner"].as_object_mut() {
        winner.remove("run");
    }
    study
}

/// The number of steps that a ledger has so far.
pub(crate) fn steps_in(path: &Path) -> usize {
    let Ok(ledger) = Ledger::open(path) else { return 0 };
    ledger.records().unwrap().filter(|record| matches!(record.as_ref().unwrap().body, Body::Step(_))).count()
}
