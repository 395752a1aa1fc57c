//! Runs `counters` like a user, and validates its output with its schema.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use bench::{Bench, Run};
use serde_json::{Value, json};

fn counters(bench: &Bench, args: &[&str]) -> Run {
    bench.run(["counters"].iter().chain(args))
}

#[track_caller]
fn holds(document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/counters-1.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut errors = String::new();
    for error in jsonschema::validator_for(&schema).unwrap().iter_errors(document) {
        writeln!(errors, "{} at {}", error, error.instance_path()).unwrap();
    }
    assert_eq!(errors, "", "{document:#}");
}

/// A bench with the kernel whose tile may be padded.
fn columns() -> Bench {
    let bench = Bench::new();
    bench.kernel("count_columns.cu");
    bench
}

#[test]
fn help() {
    insta::assert_snapshot!(counters(&Bench::bare(), &["--help"]).exits(0).out);
    insta::assert_snapshot!(counters(&Bench::bare(), &["diff", "--help"]).exits(0).out);
}

#[test]
fn what_a_launch_does() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    insta::assert_snapshot!(counters(&bench, &[&kernel]).exits(0).out);
    insta::assert_snapshot!(counters(&bench, &[&kernel, "--by-line"]).exits(0).out);
}

#[test]
fn json_is_what_its_schema_says() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let json = counters(&bench, &[&kernel, "--json"]).exits(0).json();
    holds(&json);
    let launch = &json["launches"][0];
    // 2 blocks of one warp, 50 of their 64 threads active, two loads of 4 bytes each.
    assert_eq!(launch["counters"]["global.ld.bytes"], 400);
    assert_eq!(launch["counters"]["executions"], 36);
    let of_lines = launch["lines"].as_array().unwrap().iter();
    let sum: u64 = of_lines.filter_map(|line| line["counters"]["executions"].as_u64()).sum();
    assert_eq!(sum, 36);
    holds(&counters(&bench, &["gone.cu", "--json"]).exits(2).json());
    bench.kernel("run_endless.ptx");
    let args = ["run_endless.ptx", "--block", "32", "--max-instructions", "10000", "--json"];
    let stopped = counters(&bench, &args).exits(4).json();
    holds(&stopped);
    assert_eq!(stopped["launches"][0]["complete"], false);
}

#[test]
fn metrics_are_printed_as_ncu_prints_them() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let names = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,smsp__inst_executed_pipe_*,\
                 smsp__thread_inst_executed_per_inst_executed";
    insta::assert_snapshot!(counters(&bench, &[&kernel, "--metrics", names]).exits(0).out);
    let wrong = counters(&bench, &[&kernel, "--metrics", "smsp__inst_executd.sum"]).exits(0);
    insta::assert_snapshot!(wrong.err);
    let list = counters(&bench, &["--list-metrics"]).exits(0).out;
    assert!(list.contains("smsp__inst_executed_pipe_tensor.sum"), "{list}");
    assert!(list.contains("an estimate"), "{list}");
}

#[test]
fn ten_runs_and_any_number_of_threads_count_the_same() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let first = counters(&bench, &[&kernel, "--grid", "40", "--json"]).exits(0).out;
    for run in 0..10 {
        let threads = ["1", "2", "4"][run % 3];
        let again = counters(&bench, &[&kernel, "--grid", "40", "--json", "--threads", threads]).exits(0).out;
        assert_eq!(again, first, "{threads} threads");
    }
}

#[test]
fn toolchain_a_difference_names_the_line() {
    let bench = columns();
    for (pad, file) in [("-DPAD=0", "before.json"), ("-DPAD=1", "after.json")] {
        let run = counters(&bench, &["count_columns.cu", pad, "--json"]).exits(0);
        holds(&run.json());
        fs::write(bench.dir.path().join(file), run.out).unwrap();
    }
    let equal = counters(&bench, &["diff", "before.json", "before.json"]).exits(0);
    assert_eq!((equal.out.as_str(), equal.err.as_str()), ("", "no counter differs (counted)\n"));
    let json = counters(&bench, &["diff", "before.json", "after.json", "--json"]).exits(1).json();
    let changes = json["launches"][0]["changes"].as_array().unwrap();
    let of = |line: &Value, counter: &str| {
        let found = changes.iter().find(|change| change["line"] == *line && change["counter"] == counter);
        found.map(|change| (change["before"].clone(), change["after"].clone()))
    };
    // 2 blocks × 4 warps × 8 columns, 32 passes each for 1.
    assert_eq!(of(&json!(15), "shared.ld.conflicts"), Some((json!(64 * 31), json!(0))));
    assert_eq!(of(&json!(15), "shared.ld.wavefronts"), Some((json!(64 * 32), json!(64))));
    // Lines that the padding does not affect are not shown.
    assert_eq!(of(&json!(12), "global.ld.sectors"), None);
    let text = counters(&bench, &["diff", "before.json", "after.json"]).exits(1);
    assert!(text.out.contains("count_columns.cu:15"), "{}", text.out);
    counters(&bench, &["diff", "before.json", "gone.json"]).exits(2);
    fs::write(bench.dir.path().join("other.json"), "{\"schema\":\"warpproof.run/1\",\"launches\":[]}")
        .unwrap();
    let wrong = counters(&bench, &["diff", "before.json", "other.json"]).exits(2);
    assert!(wrong.err.contains("warpproof.run/1"), "{}", wrong.err);
}

#[test]
fn toolchain_lines_that_only_moved_do_not_differ() {
    let bench = columns();
    let path = bench.dir.path().join("count_columns.cu");
    let write = |name: &str, flags: &[&str]| {
        let run = counters(&bench, &[&["count_columns.cu", "--json"], flags].concat()).exits(0);
        fs::write(bench.dir.path().join(name), run.out).unwrap();
    };
    write("before.json", &[]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen('\n', "\n// A comment\n// of two lines.\n", 1)).unwrap();
    write("after.json", &[]);
    counters(&bench, &["diff", "before.json", "after.json"]).exits(0);
    // With padding, changed lines have their new numbers.
    write("padded.json", &["-D", "PAD=1"]);
    let (moved, whole) = (
        counters(&bench, &["diff", "before.json", "padded.json", "--json"]).exits(1).json(),
        counters(&bench, &["diff", "before.json", "padded.json", "--json", "--totals"]).exits(1).json(),
    );
    let changes = |json: &Value| json["launches"][0]["changes"].as_array().unwrap().clone();
    let conflicts = changes(&moved)
        .into_iter()
        .find(|one| one["counter"] == "shared.ld.conflicts" && !one["line"].is_null())
        .unwrap();
    assert_eq!((&conflicts["before"], &conflicts["after"]), (&1984.into(), &0.into()), "{moved:#}");
    assert!(!changes(&whole).is_empty() && changes(&whole).iter().all(|one| one["line"].is_null()));
    // Another kernel is said.
    let mut other: Value =
        serde_json::from_str(&fs::read_to_string(bench.dir.path().join("after.json")).unwrap()).unwrap();
    other["launches"][0]["kernel"] = "rows".into();
    fs::write(bench.dir.path().join("other.json"), other.to_string()).unwrap();
    let run = counters(&bench, &["diff", "after.json", "other.json"]).exits(0);
    assert!(run.err.contains("launch 0 has different kernels: columns → rows"), "{}", run.err);
}
