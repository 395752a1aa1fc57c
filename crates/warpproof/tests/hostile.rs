//! Malicious input that tries to access files, time or memory of the user who checks it: through a comment
//! of a source, a task, and an evaluation on the fleet.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bench::{Bench, Run, watching};
use serde_json::json;
use warpproof_toolchain::{CompilerOption, NVRTC_OPTIONS, PTXAS_OPTIONS, Ruling, Value, ptxas_options};

/// The content of a secret file, which must never be printed.
const CANARY: &str = "canary_7351";

const KERNEL: &str = "extern \"C\" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }\n";

/// A directory outside of all others, whose files must stay unchanged.
struct Canary {
    directory: tempfile::TempDir,
    before: BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)>,
}

impl Canary {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("secret.h"), format!("{CANARY} {CANARY};\n")).unwrap();
        fs::write(directory.path().join("options"), "--time=written\n").unwrap();
        let before = Self::files(directory.path());
        Self { directory, before }
    }

    fn files(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| {
                let modified = entry.metadata().unwrap().modified().unwrap();
                (entry.path(), (fs::read(entry.path()).unwrap_or_default(), modified))
            })
            .collect()
    }

    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Nothing was created, changed or removed, and no secret content was printed.
    #[track_caller]
    fn is_untouched(&self, run: &Run, what: &str) {
        assert_eq!(Self::files(self.directory.path()), self.before, "{what}");
        assert!(!run.out.contains(CANARY) && !run.err.contains(CANARY), "{what}: {}{}", run.out, run.err);
    }
}

/// A task with one candidate. `candidate` is added to its section, and `reference` to the reference's.
fn task(source: &str, candidate: &str, reference: Option<&str>) -> String {
    let (operator, reference, policy) = match reference {
        None => (
            "elementwise",
            "expression = \"2 * x\"\noutput = \"y\"",
            "policy = \"derived\"\naccumulate = \"f32\"",
        ),
        Some(keys) => (
            "custom",
            keys,
            "policy = \"stated\"\nabsolute = 1e-6\nrelative = 1e-6\nrmse = 1e-6\nbias = 1e-6",
        ),
    };
    format!(
        "name = \"twice\"\nversion = 1\noperator = \"{operator}\"\ndtypes = [\"f32\"]\nseeds = [1]\ndistributions = [\"normal\"]\n\
         shape = [{{ name = \"main\", axes = {{ n = 32 }} }}]\ninput = [{{ name = \"x\", dtype = \"each\", dims = [\"n\"] }}]\n\
         output = [{{ name = \"y\", dtype = \"each\", dims = [\"n\"] }}]\ngate = [{{ stage = \"build\" }}, {{ stage = \"correct\" }}]\n\
         target = {{ architectures = [\"sm_89\"], devices = [\"l4\"] }}\n[reference]\n{reference}\n[tolerance]\n{policy}\n\
         derivation = \"a product with two is exact\"\n[[candidate]]\nname = \"own\"\nsource = \"{source}\"\n{candidate}\n\
         [[candidate.launch]]\nkernel = \"twice\"\ngrid = 1\nblock = 32\narguments = [\"x\", \"y\"]\n"
    )
}

/// The words of a refused option that would read or write a file of the canary, in the n-th spelling.
fn spelled(option: &CompilerOption, n: usize, canary: &Canary) -> Vec<String> {
    let value = match option.value {
        Value::None => return vec![if n.is_multiple_of(2) { option.long } else { option.short }.to_owned()],
        Value::Switch => "true".to_owned(),
        Value::Number => "2".to_owned(),
        Value::Path if option.long.contains("include") => canary.at("secret.h"),
        Value::Path if option.long == "--options-file" => canary.at("options"),
        Value::Path => canary.at("written"),
        _ => format!("--list={}", canary.at("written")),
    };
    match n % 4 {
        0 => vec![format!("{}={value}", option.long)],
        1 => vec![option.long.to_owned(), value],
        2 => vec![format!("{}={value}", option.short)],
        _ => vec![option.short.to_owned(), value],
    }
}

fn refused(table: &'static [CompilerOption]) -> impl Iterator<Item = &'static CompilerOption> {
    table.iter().filter(|option| option.ruling != Ruling::Allowed)
}

#[test]
fn toolchain_every_refused_option_is_refused_from_a_comment_a_task_and_the_fleet() {
    let bench = Bench::new();
    let canary = Canary::new();
    let write = |name: &str, text: &str| fs::write(bench.dir.path().join(name), text).unwrap();
    let evaluation = bench.dir.path().join("evaluation");
    fs::create_dir_all(evaluation.join("task")).unwrap();
    let limits = json!({ "memory_bytes": 8u64 << 30, "seconds": 600, "file_bytes": 1 << 30, "processes": 512,
                         "total_memory_bytes": 16u64 << 30, "disk_bytes": 8u64 << 30 });
    let order = json!({ "task": "twice.toml", "candidate": "own", "secret": null, "stages": null, "device": null, "steps": 1,
                        "limits": limits, "read": [], "unconfined": true });
    fs::write(evaluation.join("order.json"), order.to_string()).unwrap();
    fs::write(evaluation.join("task/kernel.cu"), KERNEL).unwrap();
    let mut count = 0;
    for (n, option) in refused(NVRTC_OPTIONS).enumerate() {
        let words = spelled(option, n, &canary);
        let named = format!("NVRTC option `{}` is refused", words[0]);
        write(
            "comment.cu",
            &format!(
                "//@options: {}\n//@launch: grid=1 block=32 arg=x:f32[32]=1 arg=y:out:f32[32]\n{KERNEL}",
                words.join(" ")
            ),
        );
        let run = bench.run(["check", "comment.cu"]).exits(2);
        assert!(run.err.contains(&named), "{named}: {}", run.err);
        canary.is_untouched(&run, &named);

        write("kernel.cu", KERNEL);
        let listed = words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
        let text = task("kernel.cu", &format!("flags = [{listed}]"), None);
        write("twice.toml", &text);
        let run = bench.run(["gate", "twice.toml"]).exits(2);
        // The architecture has its own message.
        assert!(run.err.contains(&named) || option.short == "-arch", "{named}: {}", run.err);
        canary.is_untouched(&run, &named);

        fs::write(evaluation.join("task/twice.toml"), &text).unwrap();
        let run = Run::of(&bench.fleet_command().args(["evaluate", "evaluation"]).output().unwrap());
        assert_ne!(run.code, Some(0), "{named}: {}{}", run.out, run.err);
        assert!(run.err.contains(&named) || option.short == "-arch", "{named}: {}", run.err);
        canary.is_untouched(&run, &named);
        count += 1;
    }
    assert!(count > 30, "{count}");
    for option in refused(PTXAS_OPTIONS) {
        for n in 0..4 {
            let words = spelled(option, n, &canary);
            assert!(ptxas_options(&words).is_err(), "{words:?}");
        }
    }
}

#[test]
fn toolchain_every_allowed_option_compiles_and_writes_nothing() {
    let bench = Bench::new();
    let directory = bench.dir.path().join("sources");
    fs::create_dir(&directory).unwrap();
    // Some options exclude each other: those that only warn are passed together, the rest separately.
    for option in NVRTC_OPTIONS.iter().filter(|option| option.ruling == Ruling::Allowed) {
        let value = match option.value {
            Value::None => String::new(),
            Value::Switch => "=true".to_owned(),
            Value::Number => "=64".to_owned(),
            Value::Numbers => "=177,550".to_owned(),
            Value::OneOf(words) | Value::SomeOf(words) => format!("={}", words.last().unwrap()),
            _ => "=NAME".to_owned(),
        };
        fs::write(directory.join("kernel.cu"), format!("//@options: {}{value}\n//@launch: grid=1 block=32 arg=x:f32[32]=1 arg=y:out:f32[32]\n{KERNEL}", option.long)).unwrap();
        let run = bench.run(["check", "sources/kernel.cu"]);
        // The compiler itself refuses options of a later release or of another architecture.
        let compiled = run.code == Some(0) || run.err.contains("NVRTC_ERROR_INVALID_OPTION");
        assert!(compiled, "{}: {}", option.long, run.err);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "{}", option.long);
    }
}

#[test]
fn toolchain_a_source_reads_no_file_outside_of_its_project() {
    let bench = Bench::new();
    let canary = Canary::new();
    let project = bench.dir.path().join("project");
    fs::create_dir_all(project.join("kernels")).unwrap();
    std::os::unix::fs::symlink(canary.at("secret.h"), project.join("kernels/link.h")).unwrap();
    let up = "../".repeat(12) + canary.at("secret.h").trim_start_matches('/');
    let secret = canary.at("secret.h");
    let launch = "//@launch: grid=1 block=32 arg=x:f32[32]=1 arg=y:out:f32[32]\n";
    let mut attempts = vec![
        format!("#include \"{secret}\"\n"),
        format!("#include <{secret}>\n"),
        format!("#include \"{up}\"\n"),
        "#include \"link.h\"\n".to_owned(),
        format!("#include /*\n*/ \"{secret}\"\n"),
        format!("#inc\\\nlude \"{secret}\"\n"),
        format!("#/*\n*/include \"{secret}\"\n"),
        format!("??=include \"{secret}\"\n#include \"{secret}\"\n"),
        // The renderer of messages must not read it either.
        format!("#line 1 \"{secret}\"\nint wrong = undeclared;\n"),
    ];
    if warpproof_sandbox::available().is_any() {
        attempts.push(format!("#define HEADER \"{secret}\"\n#include HEADER\n"));
        attempts.push(format!("#define Q(x) #x\n#define HEADER Q({secret})\n#include HEADER\n"));
        attempts
            .push(format!("#if __has_include(\"{secret}\")\n#include \"{secret}\"\n#endif\n#error end\n"));
    }
    for attempt in &attempts {
        fs::write(project.join("kernels/kernel.cu"), format!("{launch}{attempt}{KERNEL}")).unwrap();
        let mut command = bench.command();
        let run =
            Run::of(&command.current_dir(&project).args(["check", "kernels/kernel.cu"]).output().unwrap());
        assert!([Some(1), Some(2)].contains(&run.code), "{attempt}: {:?} {}{}", run.code, run.out, run.err);
        canary.is_untouched(&run, attempt);
    }
    // A header of the project may be read from a directory below it; a header elsewhere only if the user
    // allows it.
    fs::write(project.join("own.cuh"), "#define OWN 1\n").unwrap();
    fs::write(project.join("kernels/kernel.cu"), format!("{launch}#include \"../own.cuh\"\n{KERNEL}"))
        .unwrap();
    let run =
        |args: &[&str], at: &Path| Run::of(&bench.command().current_dir(at).args(args).output().unwrap());
    run(&["check", "kernels/kernel.cu"], &project).exits(0);
    let outside =
        run(&["check", project.join("kernels/kernel.cu").to_str().unwrap()], canary.directory.path())
            .exits(2);
    assert!(
        outside.err.contains("own.cuh` is outside of") && outside.err.contains("--allow-path"),
        "{}",
        outside.err
    );
    let shown = project.display().to_string();
    let file = project.join("kernels/kernel.cu");
    run(&["check", file.to_str().unwrap(), "--allow-path", &shown], canary.directory.path()).exits(0);
}

#[test]
fn toolchain_a_task_names_no_file_outside_of_its_directory() {
    let bench = Bench::new();
    let canary = Canary::new();
    let at = |name: &str| bench.dir.path().join(name);
    fs::create_dir_all(at("task")).unwrap();
    fs::write(at("kernel.cu"), KERNEL).unwrap();
    fs::write(at("task/kernel.cu"), KERNEL).unwrap();
    fs::write(at("reference.py"), "def reference(x): return [2 * v for v in x.tolist()]\n").unwrap();
    std::os::unix::fs::symlink(at("kernel.cu"), at("task/link.cu")).unwrap();
    let python = "python = \"../reference.py\"";
    for (source, reference) in [("../kernel.cu", None), ("link.cu", None), ("kernel.cu", Some(python))] {
        fs::write(at("task/twice.toml"), task(source, "", reference)).unwrap();
        let run = bench.run(["gate", "task/twice.toml"]).exits(2);
        assert!(
            run.err.contains("is outside of") && run.err.contains("--allow-path"),
            "{source}: {}",
            run.err
        );
        canary.is_untouched(&run, source);
        let _absent = fs::remove_dir_all(at(".warpproof"));
        bench.run(["gate", "task/twice.toml", "--allow-path", "."]).exits(0);
        // Another reference would require another version of the task.
        fs::remove_dir_all(at(".warpproof")).unwrap();
    }
}

#[test]
fn toolchain_the_hostile_kernels_are_refused_when_they_are_built() {
    let bench = Bench::new();
    let tasks = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/cheats")).unwrap();
    let path = tasks.join("hostile.toml");
    let run = bench.run(["gate", path.to_str().unwrap(), "--ledger", "ledger", "--json"]).exits(1);
    assert!(!run.out.contains("licenses") && !run.err.contains("licenses"), "{}{}", run.out, run.err);
    let judged = run.json()["candidates"].as_array().unwrap().clone();
    for (name, words) in [
        ("option-in-comment", "NVRTC option `--create-pch=../../../overwritten.pch` is refused"),
        ("option-for-front-end", "NVRTC option `-Xcudafe` is refused"),
        ("header-elsewhere", "deny.toml` is outside of"),
        (
            "header-by-macro",
            if warpproof_sandbox::available().is_any() { "cannot open source file" } else { "macro" },
        ),
    ] {
        let candidate = judged.iter().find(|one| one["candidate"] == name).unwrap();
        let reason = candidate["reason"].as_str().unwrap();
        assert!(reason.contains(words), "{name}: {reason}");
        assert_ne!(candidate["verdict"], "PROVISIONAL");
    }
    let honest = judged.iter().find(|one| one["candidate"] == "honest").unwrap();
    assert_eq!(honest["verdict"], "PROVISIONAL", "{honest:#}");
    for written in ["overwritten.pch", "overwritten.list"] {
        assert!(!tasks.join("../..").join(written).exists() && !bench.dir.path().join(written).exists());
    }
}

#[test]
fn toolchain_a_compilation_that_takes_too_much_is_ended_and_names_the_flag() {
    let bench = Bench::new();
    let launch = "//@launch: grid=1 block=32 arg=x:f32[32]=1 arg=y:out:f32[32]\n";
    // Each name expands to ten of the previous one.
    let mut text = format!("{launch}#define B0 1+\n");
    for n in 1..12 {
        let before = format!("B{} ", n - 1).repeat(10);
        writeln!(text, "#define B{n} {before}").unwrap();
    }
    fs::write(bench.dir.path().join("bomb.cu"), format!("{text}__device__ int bomb = B11 1;\n{KERNEL}"))
        .unwrap();
    let run = bench.run(["check", "bomb.cu", "--compile-memory", "256M", "--compile-seconds", "20"]).exits(4);
    assert!(run.err.contains("--compile-memory") || run.err.contains("--compile-seconds"), "{}", run.err);
    // Each instance creates two more.
    let templates = "template <int N, int M> struct T { static constexpr long v = T<N - 1, 2 * M>::v + T<N - 1, 2 * M + 1>::v; };\n\
                     template <int M> struct T<0, M> { static constexpr long v = M; };\n__device__ long bomb = T<26, 1>::v;\n";
    fs::write(bench.dir.path().join("deep.cu"), format!("{launch}{templates}{KERNEL}")).unwrap();
    let run = bench.run(["check", "deep.cu", "--compile-seconds", "3"]).exits(4);
    assert!(run.err.contains("--compile-seconds") || run.err.contains("--compile-memory"), "{}", run.err);
}

#[test]
fn toolchain_a_reference_that_takes_too_much_is_ended_and_names_the_key() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("kernel.cu"), KERNEL).unwrap();
    let scratch = bench.dir.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    // Whether the function was called before it was ended.
    let is_called = |body: &str, keys: &str, ledger: &str, named: &str| {
        let text = format!("def reference(x):\n    open(\"called\", \"w\").close()\n    {body}\n");
        fs::write(bench.dir.path().join("reference.py"), text).unwrap();
        let reference = format!("python = \"reference.py\"{keys}");
        fs::write(bench.dir.path().join("twice.toml"), task("kernel.cu", "", Some(&reference))).unwrap();
        let mut gate = bench.command();
        gate.args(["gate", "twice.toml", "--ledger", ledger]).env("TMPDIR", &scratch);
        let (output, called) = watching(&scratch, "called", || gate.output().unwrap());
        let run = Run::of(&output).exits(4);
        assert!(run.out.contains(named), "{}{}", run.out, run.err);
        called
    };
    is_called("return len(bytearray(4 << 30))", "", "memory", "memory_mb");
    // On a busy machine Python may need longer to start than the function may take.
    let called = [2, 8, 32, 128].into_iter().any(|seconds| {
        let keys = format!("\ntimeout_seconds = {seconds}");
        is_called("while True: pass", &keys, &format!("time-{seconds}"), "timeout_seconds")
    });
    assert!(called, "the function was never called");
}

#[test]
fn toolchain_a_reference_that_keeps_something_between_calls_is_refused() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("kernel.cu"), KERNEL).unwrap();
    let text = "calls = 0\ndef reference(x):\n    global calls\n    calls += 1\n    return [2 * v + (calls - 1) for v in x.tolist()]\n";
    fs::write(bench.dir.path().join("reference.py"), text).unwrap();
    fs::write(bench.dir.path().join("twice.toml"), task("kernel.cu", "", Some("python = \"reference.py\"")))
        .unwrap();
    let run = bench.run(["gate", "twice.toml"]).exits(2);
    assert!(run.out.contains("keeps something between calls"), "{}{}", run.out, run.err);
}
