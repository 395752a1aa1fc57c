//! The information that a failure gives the user: where an output is wrong, the command that reproduces the
//! case, and the cause.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use bench::Bench;
use serde_json::Value;

/// y = 2 x + 1 over a matrix, with a hidden shape and a secret seed.
const TASK: &str = r#"
name = "scaled"
version = 1
operator = "elementwise"
dtypes = ["f32"]
seeds = [1]
secret_seeds = 1
distributions = ["normal", "structured"]
input = [{ name = "x", dtype = "each", dims = ["n", "m"] }]
output = [{ name = "y", dtype = "each", dims = ["n", "m"] }]
shape = [
    { name = "main", axes = { n = 4, m = 64 }, tails = { m = [61] } },
    { name = "surprise", axes = { n = [3, 5], m = [100, 120] }, hidden = true },
]
reference = { expression = "2 * x + 1", output = "y" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }, { stage = "checks" }]

[tolerance]
policy = "derived"
accumulate = "f32"
non_finite = "refuse"
derivation = "one multiplication and one addition in f32"

[[candidate]]
name = "scaled"
source = "scaled.cu"
launch = [{ kernel = "f", grid = "n", block = 128, arguments = ["x", "y", { value = "m", dtype = "u32" }] }]
"#;

/// A kernel that writes `value`, where `i` is the column.
fn kernel(value: &str) -> String {
    format!(
        "extern \"C\" __global__ void f(const float* x, float* y, unsigned m) {{\n\
         unsigned i = threadIdx.x, at = blockIdx.x * m + i;\n\
         if (i < m) y[at] = {value};\n}}\n"
    )
}

fn write(bench: &Bench, task: &str, value: &str) {
    fs::write(bench.dir.path().join("task.toml"), task).unwrap();
    fs::write(bench.dir.path().join("scaled.cu"), kernel(value)).unwrap();
}

/// The counterexample of the only candidate.
fn counterexample(run: &Value) -> Value {
    let stages = run["candidates"][0]["stages"].as_array().unwrap();
    stages.iter().find(|stage| stage["counterexample"].is_object()).unwrap()["counterexample"].clone()
}

/// Runs the command that a text gives for reproduction.
fn again(bench: &Bench, text: &str) -> bench::Run {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("reproduce: warpproof ")).unwrap();
    let words = line.split(' ').map(|word| word.trim_matches('\'').to_owned());
    bench.run(words.collect::<Vec<_>>())
}

#[test]
fn toolchain_a_wrong_output_shows_where_and_is_reproduced_by_the_printed_command() {
    let bench = Bench::new();
    // The last column of rows that no vector of four divides is wrong.
    write(&bench, TASK, "(m % 4 && i == m - 1) ? 9.0f : 2.0f * x[at] + 1.0f");
    let run = bench.run(["gate", "task.toml", "--json"]).exits(1).json();
    let shown = counterexample(&run);
    assert_eq!(shown["case"], "scaled/shape=main:m=61/dtype=f32/dist=normal/seed=1", "{shown:#}");
    let mismatch = &shown["mismatch"];
    assert_eq!(
        (&mismatch["output"], &mismatch["wrong"], &mismatch["elements"]),
        (&"y".into(), &4.into(), &244.into())
    );
    assert_eq!(mismatch["first"]["index"], serde_json::json!([0, 60]));
    assert_eq!(mismatch["first"]["got"], "9");
    assert_eq!(mismatch["worst"]["index"][1], 60);
    let pattern = mismatch["pattern"].as_str().unwrap();
    assert_eq!(pattern, "4 of 244 elements are wrong: axis 1 (`m`): index 60 alone");
    assert_eq!(mismatch["map"].as_array().unwrap().len(), 4);
    assert!(mismatch["map"][0].as_str().unwrap().ends_with(".+"), "{mismatch:#}");

    let said = bench.run(["gate", "task.toml"]).exits(1);
    assert!(said.out.contains("y[0, 60] is 9, expected "), "{}", said.out);
    let run = again(&bench, &said.out).exits(1);
    assert!(run.out.contains("y: differs from the reference"), "{}", run.out);
    assert!(run.out.contains(pattern), "{}", run.out);
    assert!(run.err.contains("output `y` is wrong"), "{}", run.err);

    // Every report shows it, made only from the ledger; the reason appears once.
    let text = bench.run(["report"]).exits(0).out;
    assert!(text.contains(pattern) && text.contains("reproduce: warpproof run --task task.toml"), "{text}");
    let html = bench.run(["report", "validation", "--format", "html"]).exits(0).out;
    assert!(html.contains("<figure class=\"map\">") && html.contains("<rect class=\"some\""), "{html}");
    assert!(html.contains("How to read this report") && html.contains("What was tested"), "{html}");
    let visible = html.split("<body>").nth(1).unwrap();
    let told = run_reason(&bench);
    let shown = visible.replace("&#39;", "'");
    assert_eq!(shown.matches(&told).count(), 1, "{told}\n{shown}");
    bench.run(["report", "validation", "-o", "report.json"]).exits(0);
    let document = fs::read_to_string(bench.dir.path().join("report.json")).unwrap();
    assert!(document.contains("\"counterexample\""), "{document}");
}

/// The reason of the verdict of the newest run.
fn run_reason(bench: &Bench) -> String {
    let log = bench.run(["log", "--kind", "verdict", "-n", "1", "--json"]).exits(0).json();
    log["records"][0]["body"]["reason"].as_str().unwrap().to_owned()
}

/// A finding of another case is not attached to the wrong output of this one, because the printed command
/// would not show it.
#[test]
fn toolchain_findings_of_another_case_are_named_with_their_case() {
    let bench = Bench::new();
    let task = TASK.replace("\"structured\"", "\"constant\"");
    let wrong = "(i == 0 ? 9.0f : 2.0f * x[at] + 1.0f)";
    write(&bench, &task, &format!("(x[0] == x[1] ? (y[1] = float(blockIdx.x)) * 0.0f : 0.0f) + {wrong}"));
    let run = bench.run(["gate", "task.toml", "--json"]).exits(1).json();
    let shown = counterexample(&run);
    assert_eq!(shown["case"], "scaled/shape=main/dtype=f32/dist=normal/seed=1", "{shown:#}");
    assert!(shown["mismatch"].is_object() && shown["findings"].is_null(), "{shown:#}");
    let reason = run_reason(&bench);
    let case = "scaled/shape=main/dtype=f32/dist=constant/seed=1";
    assert!(
        reason.contains(&format!("in another case, {case}: ")) && reason.contains("global-race"),
        "{reason}"
    );
    let said = bench.run(["gate", "task.toml"]).exits(1).out;
    assert!(again(&bench, &said).exits(1).out.contains("y: differs from the reference"));
    bench.run(["check", "--task", "task.toml", "--case", case]).exits(1);
    // If the case itself shows the finding, it is attached.
    write(&bench, &task, &format!("(y[1] = float(blockIdx.x)) * 0.0f + {wrong}"));
    let run = bench.run(["gate", "task.toml", "--json"]).exits(1).json();
    let shown = counterexample(&run);
    assert_eq!(shown["findings"][0]["class"], "global-race", "{shown:#}");
    let said = bench.run(["gate", "task.toml"]).exits(1).out;
    assert!(again(&bench, &said).exits(1).err.contains("error[global-race]"), "{said}");
}

#[test]
fn toolchain_hidden_shapes_and_secret_seeds_are_reproduced_too() {
    let bench = Bench::new();
    write(&bench, TASK, "m > 64 ? 0.0f : 2.0f * x[at] + 1.0f");
    let hidden = bench.run(["gate", "task.toml"]).exits(1).out;
    assert!(hidden.contains("shape=surprise(m=1"), "{hidden}");
    let run = again(&bench, &hidden).exits(1);
    assert!(run.out.contains("every element is wrong"), "{}", run.out);

    // Correct for the known seed, wrong for any other.
    let known =
        bench.run(["run", "--task", "task.toml", "--case", "shape=main/seed=1", "--json"]).exits(0).json();
    assert_eq!(known["comparison"][0]["passed"], true, "{known:#}");
    let input = known["outputs"].as_array().unwrap().iter().find(|one| one["name"] == "x").unwrap();
    let first = input["values"][0].clone();
    let task = TASK.replace("[\"normal\", \"structured\"]", "[\"normal\"]");
    write(&bench, &task, &format!("x[0] == {first}f ? 2.0f * x[at] + 1.0f : 7.0f"));
    let secret = bench.run(["gate", "task.toml", "--ledger", "other"]).exits(1).out;
    assert!(secret.contains("secret seed"), "{secret}");
    let run = again(&bench, &secret).exits(1);
    assert!(run.out.contains("is 7, expected"), "{}", run.out);
}

#[test]
fn toolchain_a_case_is_checked_counted_and_explained() {
    let bench = Bench::new();
    // A race: each warp reads data that another one writes, without a barrier.
    let racy = "2.0f * x[at] + 1.0f; __shared__ float s[128]; s[i] = 1.0f; if (i < m) y[at] += 0.0f * s[(i + 32) & 127]";
    write(&bench, TASK, racy);
    let said = bench.run(["gate", "task.toml"]).exits(1);
    assert!(said.out.contains("reproduce: warpproof check --task task.toml"), "{}", said.out);
    assert!(said.out.contains("| if (i < m) y[at]"), "{}", said.out);
    let run = again(&bench, &said.out).exits(1);
    assert!(run.err.contains("race") && run.err.contains("scaled.cu:3"), "{}", run.err);
    let html = bench.run(["report", "--format", "html"]).exits(0).out;
    assert!(
        html.contains("<figure class=\"finding\">") && html.contains("<pre><code>if (i &lt; m)"),
        "{html}"
    );

    write(&bench, TASK, "2.0f * x[at] + 1.0f");
    let case = ["--task", "task.toml", "--case", "scaled/shape=main:m=61/dtype=f32/dist=structured/seed=5"];
    let with = |command: &str, rest: &[&str]| {
        bench.run([command].iter().chain(&case).chain(rest).copied().collect::<Vec<_>>())
    };
    assert!(with("check", &[]).exits(0).err.contains("no findings in 1 kernel"));
    let counted = with("counters", &["--json"]).exits(0).json();
    assert_eq!(counted["launches"][0]["kernel"], "f");
    assert!(with("explain", &["--json"]).exits(0).json().is_object());
    assert!(with("run", &[]).exits(0).out.contains("y: agrees with the reference"));
    // Missing names are reported.
    for (case, words) in [
        ("shape=no", "no shape `no`; the candidate supports main, main:m=61, surprise"),
        ("dist=no", "no distribution `no`; the task has normal, structured"),
        ("other/shape=main", "found one of task `other`"),
        ("shape=main/what=1", "expected shape=, dtype=, dist=, seed= or plant="),
    ] {
        let run = bench.run(["check", "--task", "task.toml", "--case", case]).exits(2);
        assert!(run.err.contains(words), "{}", run.err);
    }
    bench.run(["check", "scaled.cu", "--task", "task.toml"]).exits(2);
    bench.run(["check", "scaled.cu", "--case", "shape=main"]).exits(2);
}

#[test]
fn toolchain_a_reference_that_no_kernel_can_match_is_the_fault_of_the_task() {
    let bench = Bench::new();
    // The logarithm of a negative number is not a number.
    let task = TASK.replace("2 * x + 1", "log(x)");
    write(&bench, &task, "logf(x[at])");
    let run = bench.run(["gate", "task.toml", "--json"]).exits(2).json();
    let one = &run["candidates"][0];
    assert_eq!(one["verdict"], "INCONCLUSIVE", "{one:#}");
    let reason = one["reason"].as_str().unwrap();
    assert!(reason.contains("error in the task, not in the kernel: the reference is NaN at y["), "{reason}");
    let text = bench.run(["report", "--format", "markdown"]).exits(0).out;
    assert!(text.contains("Fix the task, not the kernel"), "{text}");
}

#[test]
fn toolchain_a_new_stage_is_not_answered_by_what_was_known_before() {
    let bench = Bench::new();
    let before = TASK.replace("{ stage = \"checks\" }", "{ stage = \"model\" }");
    write(&bench, &before, "2.0f * x[at] + 1.0f");
    bench.run(["gate", "task.toml"]).exits(0);
    let text = bench.run(["report", "--format", "markdown"]).exits(0).out;
    assert!(text.contains("no latency is known: the stage counters was not run"), "{text}");
    let after = before.replace("{ stage = \"model\" }", "{ stage = \"counters\" }, { stage = \"model\" }");
    write(&bench, &after, "2.0f * x[at] + 1.0f");
    bench.run(["gate", "task.toml"]).exits(0);
    let text = bench.run(["report", "--format", "markdown"]).exits(0).out;
    assert!(!text.contains("no latency is known"), "{text}");
    assert!(text.contains("us predicted"), "{text}");
}

#[test]
fn toolchain_a_small_space_is_searched_whole() {
    let bench = Bench::new();
    let gates = "{ stage = \"correct\" }, { stage = \"counters\" }, { stage = \"model\" }";
    let task = TASK.replace("{ stage = \"correct\" }, { stage = \"checks\" }", gates);
    let task = task.replace("source = \"scaled.cu\"", "source = \"scaled.cu\"\ndefines = { WORK = 1 }")
        + "\n[[space]]\ncandidate = \"scaled\"\nvalues = { WORK = [1, 2, 3, 4, 5] }\n";
    write(&bench, &task, "2.0f * x[at] + 1.0f; for (int w = 1; w < WORK; w++) __syncthreads()");
    let study = bench.run(["tune", "task.toml", "--json"]).exits(0).json();
    assert_eq!(study["combinations"], 5, "{study:#}");
    assert_eq!(study["evaluations"].as_array().unwrap().len(), 5, "{study:#}");
    let said = bench.run(["tune", "task.toml"]).exits(0);
    assert!(said.out.contains("scaled: 5 of 5 combinations evaluated"), "{}", said.out);
}

#[test]
fn toolchain_files_are_written_in_the_form_of_their_ending() {
    let bench = Bench::new();
    write(&bench, TASK, "2.0f * x[at] + 1.0f");
    let said = bench.run(["gate", "task.toml", "-o", "report.html", "--quiet"]).exits(0);
    assert!(said.out.contains("PROVISIONAL") && said.err.is_empty(), "{}", said.err);
    let at = |name: &str| fs::read_to_string(bench.dir.path().join(name)).unwrap();
    assert!(at("report.html").starts_with("<!DOCTYPE html>"));
    let starts = [
        ("r.md", "# "),
        ("r.json", "{"),
        ("r.txt", "Validation"),
        ("r.xml", "<?xml"),
        ("r.sarif", "{"),
        ("r.html", "<!"),
    ];
    for (file, start) in starts {
        bench.run(["report", "validation", "-o", file]).exits(0);
        assert!(at(file).starts_with(start), "{file}: {}", at(file));
    }
    let case = ["check", "--task", "task.toml", "-o"];
    for (file, start) in [("c.json", "{"), ("c.sarif", "{"), ("c.txt", "no findings")] {
        bench.run(case.iter().copied().chain([file])).exits(0);
        assert!(at(file).starts_with(start), "{file}: {}", at(file));
    }
    let refused = bench.run(case.iter().copied().chain(["c.pdf"])).exits(2);
    assert!(refused.err.contains("unknown output format: `.pdf`"), "{}", refused.err);
    bench.run(["gate", "task.toml", "-o", "report.pdf"]).exits(2);
    bench.run(["explain", "--task", "task.toml", "-o", "e.html"]).exits(0);
    assert!(at("e.html").starts_with("<!DOCTYPE html>"), "{}", at("e.html"));
}

#[test]
fn shells_complete_and_quiet_is_quiet() {
    let bench = Bench::bare();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let text = bench.run(["completions", shell]).exits(0).out;
        assert!(text.contains("warpproof") && text.contains("counters"), "{shell}");
    }
    fs::write(
        bench.dir.path().join("k.ptx"),
        ".version 8.0\n.target sm_89\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n",
    )
    .unwrap();
    let check = ["check", "k.ptx", "--block", "32"];
    assert!(bench.run(check).exits(0).err.contains("no findings in 1 kernel"));
    let quiet = bench.run(check.iter().copied().chain(["--quiet"])).exits(0);
    assert!(quiet.err.is_empty() && quiet.out.is_empty(), "{} {}", quiet.out, quiet.err);
    assert!(bench.run(["--quiet", "check", "no.cu"]).exits(2).err.contains("cannot read no.cu"));
    assert_eq!(
        bench.run(check.iter().copied().chain(["--json"])).exits(0).json()["schema"],
        "warpproof.findings/1"
    );
}

#[test]
fn a_change_of_an_included_file_runs_the_check_again() {
    let bench = Bench::bare();
    let at = |name: &str| bench.dir.path().join(name);
    let ptx = ".version 8.0\n.target sm_89\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n";
    fs::write(at("k.ptx"), ptx).unwrap();
    let mut command = bench.command();
    command.args(["check", "k.ptx", "--block", "32", "--watch", "--watch-runs", "2"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    // Each step waits for output of the program, never for a time.
    assert!(lines.find(|line| line.contains("watching 1 file")).is_some());
    fs::write(at("k.ptx"), ptx.replace(" ret;", " trap;")).unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("k.ptx changed")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
}
