//! Runs `check` like a user, and validates its output with its schemas.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use bench::{Bench, Run};
use serde_json::{Value, json};

/// Runs `warpproof check`.
fn check(bench: &Bench, args: &[&str]) -> Run {
    bench.run(["check"].iter().chain(args))
}

/// A schema of the repository, ready to validate documents.
fn validator(schema: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(schema);
    let text = fs::read_to_string(path).unwrap();
    // One pattern of the standard, for language names, has a bracket that a strict regex parser refuses.
    let text = text.replace("[a-zA-Z]{2}]?$", "[a-zA-Z]{2}\\\\]?$");
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// Fails unless a document matches its schema.
#[track_caller]
fn holds(schema: &str, document: &Value) {
    let mut errors = String::new();
    for error in validator(schema).iter_errors(document) {
        writeln!(errors, "{} at {}", error, error.instance_path()).unwrap();
    }
    assert_eq!(errors, "", "{document:#}");
}

const FINDINGS: &str = "findings-1.schema.json";
const SARIF: &str = "sarif-2.1.0.schema.json";

#[test]
fn help() {
    insta::assert_snapshot!(check(&Bench::bare(), &["--help"]).exits(0).out);
}

#[test]
fn a_finding_is_shown_at_its_cuda_line() {
    let bench = Bench::bare();
    bench.kernel("run_out_of_bounds.ptx");
    let kernel = bench.kernel("run_out_of_bounds.cu");
    let found = check(&bench, &[&kernel, "--ptx", "run_out_of_bounds.ptx"]).exits(1);
    assert_eq!(found.out, "");
    insta::assert_snapshot!(found.err);
    // The module alone gives the same report: it names its source.
    assert_eq!(check(&bench, &["run_out_of_bounds.ptx"]).exits(1).err, found.err);
}

#[test]
fn json_is_what_its_schema_says() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_out_of_bounds.cu");
    bench.kernel("run_out_of_bounds.ptx");
    let args = [&kernel, "--ptx", "run_out_of_bounds.ptx", "--format", "json"];
    let mut json = check(&bench, &args).exits(1).json();
    holds(FINDINGS, &json);
    assert_eq!((&json["ok"], &json["outcome"]), (&json!(false), &json!("kernel")));
    let finding = &json["findings"][0];
    assert_eq!((&finding["class"], &finding["launch"]), (&json!("bounds"), &json!(0)));
    assert_eq!((&finding["places"][0]["file"], &finding["places"][0]["line"]), (&json!(kernel), &json!(7)));
    assert_eq!(json["launches"][0]["line"], 2);
    json["launches"][0]["host_time"]["value"] = json!(0);
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
    for (args, code) in [
        (&["run_saxpy.ptx"][..], 0),
        (&["run_unsupported.ptx", "--block", "1", "--arg", "image:u64=0", "--arg", "out:f32[1]"], 3),
        (&["run_endless.ptx", "--block", "32", "--max-instructions", "10000"], 4),
        (&["run_endless.ptx"], 2),
        (&["gone.cu"], 2),
        (&["broken.ptx"], 1),
    ] {
        if args[0] != "gone.cu" {
            bench.kernel(args[0]);
        }
        let json = check(&bench, &[args, &["--format", "json"]].concat()).exits(code).json();
        holds(FINDINGS, &json);
        assert_eq!(json["exit_code"], code);
        holds(SARIF, &check(&bench, &[args, &["--format", "sarif"]].concat()).exits(code).json());
    }
}

#[test]
fn a_schema_that_accepts_everything_proves_nothing() {
    for (schema, wrong) in [
        (FINDINGS, json!({ "schema": "warpproof.findings/2" })),
        (SARIF, json!({ "version": "2.1.0", "runs": [{}] })),
    ] {
        assert!(!validator(schema).is_valid(&wrong));
    }
}

#[test]
fn sarif_is_what_the_standard_says() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_out_of_bounds.cu");
    bench.kernel("run_out_of_bounds.ptx");
    let of =
        || check(&bench, &[&kernel, "--ptx", "run_out_of_bounds.ptx", "--format", "sarif"]).exits(1).json();
    let json = of();
    holds(SARIF, &json);
    let run = &json["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "bounds");
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(rules[index]["id"], "bounds");
    assert_eq!(result["level"], "error");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "run_out_of_bounds.cu");
    assert_eq!(place["region"]["startLine"], 7);
    // Lines above the finding do not change its fingerprint.
    let print = result["partialFingerprints"].clone();
    let text = fs::read_to_string(bench.dir.path().join(&kernel)).unwrap();
    fs::write(bench.dir.path().join(&kernel), text.replace("    int i", "\n    int i")).unwrap();
    let ptx = fs::read_to_string(bench.dir.path().join("run_out_of_bounds.ptx")).unwrap();
    let moved: String = ptx.lines().map(|line| line.replace(".loc\t1 7 ", ".loc\t1 8 ") + "\n").collect();
    fs::write(bench.dir.path().join("run_out_of_bounds.ptx"), moved).unwrap();
    let again = of();
    let result = &again["runs"][0]["results"][0];
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 8);
    assert_eq!(result["partialFingerprints"], print);
}

/// Two kernels, three launches, one of them with a bug.
const THREE_LAUNCHES: &str = "\
//@launch: kernel=store grid=1 block=8 arg=out:out:u32[8]
//@launch: kernel=store grid=1 block=9 arg=out:out:u32[8]
//@launch: kernel=store grid=1 block=10 arg=out:out:u32[8]
//@launch: kernel=nothing grid=1 block=32
.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 out)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
.visible .entry nothing()
{
    ret;
}
";

#[test]
fn every_launch_line_is_checked() {
    let bench = Bench::bare();
    fs::write(bench.dir.path().join("three.ptx"), THREE_LAUNCHES).unwrap();
    let found = check(&bench, &["three.ptx"]).exits(1);
    insta::assert_snapshot!(found.err);
    let json = check(&bench, &["three.ptx", "--format", "json"]).exits(1).json();
    assert_eq!(json["launches"].as_array().unwrap().len(), 4);
    assert_eq!((&json["findings"][0]["launch"], &json["findings"][0]["count"]), (&json!(1), &json!(2)));
    // One of them, and one described on the command line.
    let done = check(&bench, &["three.ptx", "--kernel", "nothing"]).exits(0);
    assert_eq!(done.err, "no findings in 1 kernel, counted in 1 warp instruction\n");
    check(&bench, &["three.ptx", "--kernel", "store", "--block", "8", "--arg", "out:out:u32[8]"]).exits(0);
    // Findings that are not shown still count as errors.
    let dropped = check(&bench, &["three.ptx", "--max-findings", "0"]).exits(1);
    assert!(dropped.err.contains("not shown (--max-findings)"), "{}", dropped.err);
}

#[test]
fn wrong_usage_is_explained() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_nothing.ptx");
    let header = bench.dir.path().join("header.ptx");
    let mut text = String::new();
    for args in [
        &["--checks", "races"][..],
        &["--schedules", "0"],
        &["--format", "xml"],
        &["--arg", "x:in:f32[4]"],
        &["--arg", "x:input:f32[4]"],
        &["--arg", "x:out:f32=4"],
        &["--arch", "sm_999"],
        &["--arg", "x:f32[4]", "--ptx", "gone.ptx"],
    ] {
        let done = check(&bench, &[&[kernel.as_str()], args].concat()).exits(2);
        writeln!(text, "$ {}\n{}", args.join(" "), done.err.trim_end()).unwrap();
    }
    for line in ["//@checks: race,all", "//@schedules: many"] {
        fs::write(&header, format!("{line}\n{THREE_LAUNCHES}")).unwrap();
        let done = check(&bench, &["header.ptx"]).exits(2);
        writeln!(text, "{}", done.err.trim_end()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_file_says_which_checks_and_how_many_schedules() {
    let bench = Bench::bare();
    let file = bench.dir.path().join("k.ptx");
    fs::write(&file, format!("//@checks: race, init\n//@schedules: 3\n{THREE_LAUNCHES}")).unwrap();
    let json = check(&bench, &["k.ptx", "--kernel", "nothing", "--format", "json"]).exits(0).json();
    assert_eq!((&json["checks"], &json["schedules"]), (&json!(["race", "init"]), &json!(3)));
    let args = ["k.ptx", "--kernel", "nothing", "--checks", "lanes", "--schedules", "2", "--format", "json"];
    let json = check(&bench, &args).exits(0).json();
    assert_eq!((&json["checks"], &json["schedules"]), (&json!(["lanes"]), &json!(2)));
}

#[test]
fn roles_are_taken_by_run_as_well() {
    let bench = Bench::bare();
    let kernel = bench.kernel("run_saxpy.ptx");
    let args = [
        "--arg",
        "n:in:u32=2",
        "--arg",
        "a:f32=-1",
        "--arg",
        "x:in:f32[2]=[1,2]",
        "--arg",
        "y:inout:f32[2]=0.5",
    ];
    let all = [&["run", &kernel], &args[..], &["--print", "y"]].concat();
    assert_eq!(bench.run(all).exits(0).out, "y: f32[2] = -0.5 -1.5\n");
    check(&bench, &[&[kernel.as_str()], &args[..]].concat()).exits(0);
}

#[test]
fn toolchain_cuda_is_compiled_and_checked() {
    let bench = Bench::new();
    let kernel = bench.kernel("run_out_of_bounds.cu");
    let found = check(&bench, &[&kernel]).exits(1);
    assert!(found.err.contains("run_out_of_bounds.cu:7:9"), "{}", found.err);
    let kernel = bench.kernel("compile_error.cu");
    let failed = check(&bench, &[&kernel, "--format", "json"]).exits(1).json();
    holds(FINDINGS, &failed);
    assert_eq!(failed["reports"][0]["place"]["line"], 3);
}

/// Processor time of a process, or of the children that it has waited for, in hundredths of a second.
#[cfg(target_os = "linux")]
fn processor_time(process: &str, of_children: bool) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name, in parentheses, is the second field; the 14th and 15th are the process's own times, followed by its children's.
    let fields = stat.rsplit_once(')').unwrap().1.split(' ').skip(if of_children { 14 } else { 12 });
    fields.take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// An interrupted run leaves no partial file.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_check_prints_nothing() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    let bench = Bench::bare();
    let kernel = bench.kernel("run_endless.ptx");
    let arguments = ["check", &kernel, "--block", "32", "--format", "sarif"];
    // A run that ends at the first instructions: what it takes is not the execution.
    bench.run(arguments.into_iter().chain(["--max-instructions", "1"])).exits(4);
    let start_up = processor_time("self", true);
    let mut check = bench.command();
    let mut child = check.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while processor_time(&child.id().to_string(), false) < 2 * start_up + 20 {
        assert!(child.try_wait().unwrap().is_none(), "the check of an endless kernel ended");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(2));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}
