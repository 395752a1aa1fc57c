//! Runs `init` like a user: the files it writes for kernels of each operator, and its errors.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use std::fs;
use std::path::{Path, PathBuf};

use bench::{Bench, Run, kernels};
use warpproof_gate::inputs::{generate, tensors};
use warpproof_gate::reference::{Problem, expected};
use warpproof_task::{Policy, Reference, Task};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Copies a kernel and starts `warpproof init` with it.
fn init(bench: &Bench, from: &Path, args: &[&str]) -> Run {
    let name = from.file_name().unwrap().to_str().unwrap();
    fs::copy(from, bench.dir.path().join(name)).unwrap();
    bench.run(["init", name].iter().chain(args))
}

/// The result for a kernel: the parsed task, and its text.
fn written(bench: &Bench, from: &Path, args: &[&str]) -> (Task, String, String) {
    let run = init(bench, from, args).exits(0);
    let path = bench.dir.path().join(from.with_extension("toml").file_name().unwrap());
    let text = fs::read_to_string(path).unwrap();
    let task = Task::parse(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    (task, text, run.out)
}

/// A task with a built-in reference: it gives an output of the task's extents for every size.
fn computes(task: &Task) {
    let Reference::BuiltIn { operator } = &task.reference else { return };
    let Policy::Derived { accumulate } = task.tolerance.policy else { panic!("limits are derived") };
    let dtype = task.data.dtypes[0];
    for size in task.sizes(1) {
        let inputs = generate(task, &size.axes, dtype, &task.data.distributions[0], 1).unwrap();
        let problem =
            Problem { operator, inputs: &tensors(&inputs), axes: &size.axes, output: dtype, accumulate };
        let found =
            expected(&problem).unwrap_or_else(|unfit| panic!("{} {}: {unfit}", task.name.value, size.name));
        let extent = |name: &str| size.axes.get(name).and_then(|extent| i64::try_from(*extent).ok());
        let dims: Vec<usize> = task.data.outputs[0]
            .dims
            .iter()
            .map(|dim| usize::try_from(dim.integer(&extent).unwrap()).unwrap())
            .collect();
        assert_eq!(found.tensor.dims, dims, "{} {}", task.name.value, size.name);
    }
}

#[test]
fn help() {
    insta::assert_snapshot!(Bench::bare().run(["init", "--help"]).exits(0).out);
}

/// The complete file of each kernel, with guesses and questions.
#[test]
fn toolchain_every_operator_gets_its_task() {
    let bench = Bench::new();
    let own = kernels().join("init");
    let corpus = root().join("corpus/cuda");
    let mut softmax = String::new();
    for (snapshot, from, args) in [
        ("softmax_rows", root().join("tasks/softmax/rows.cu"), &[][..]),
        ("sgemm", own.join("sgemm.cu"), &[]),
        ("layer_norm", corpus.join("layer_norm.cu"), &["--kernel", "layer_norm"]),
        ("reduction", corpus.join("reduction.cu"), &["--kernel", "reduce_sum"]),
        ("saxpy", own.join("saxpy.cu"), &[]),
        ("template", own.join("template.cu"), &[]),
        ("ptx", own.join("saxpy_only.ptx"), &[]),
        ("mystery", own.join("mystery.cu"), &[]),
    ] {
        let (task, text, said) = written(&bench, &from, args);
        computes(&task);
        insta::assert_snapshot!(snapshot, text);
        if snapshot == "softmax_rows" {
            softmax = said;
        }
    }
    insta::assert_snapshot!("what_it_says", softmax);
    let json = bench.run(["init", "mystery.cu", "--force", "--json"]).exits(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["operator"]), (&"warpproof.init/1".into(), &"custom".into()));
    assert_eq!(json["reference"], serde_json::json!({ "file": "mystery_reference.py", "kept": true }));
    assert_eq!(json["next"], "warpproof gate mystery.toml");
    assert!(json["questions"][0].as_str().unwrap().contains("what does `mystery` compute?"), "{json:#}");
    // An unknown operator gets a Python file to complete.
    let python = fs::read_to_string(bench.dir.path().join("mystery_reference.py")).unwrap();
    assert!(python.contains("def reference(a, index, count, entries):"), "{python}");
}

/// Two kernels of one file are two tasks, and each kernel's own lines determine its number of threads.
#[test]
fn toolchain_each_kernel_of_a_file_is_a_task() {
    let bench = Bench::new();
    let text = "__global__ void relu(const float* x, float* y, int n) {\n\
        int i = blockIdx.x * 256 + threadIdx.x;\n    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n\
        __global__ void copy(const float* x, float* y, int n) {\n\
        for (int i = threadIdx.x; i < n; i += 64) y[i] = x[i];\n}\n";
    fs::write(bench.dir.path().join("two.cu"), text).unwrap();
    for (kernel, args, name, block) in [
        (
            "relu",
            &["-o", "first.toml"][..],
            "first",
            "block = 256 # guessed: because it computes blockIdx.x * 256",
        ),
        ("copy", &[], "copy", "block = 64 # guessed: because a loop over threadIdx.x steps by 64"),
    ] {
        let said = bench.run(["init", "two.cu", "--kernel", kernel].iter().chain(args)).exits(0).out;
        assert!(!said.contains("without evidence"), "{said}");
        let file = args.get(1).copied().unwrap_or("two.toml");
        let text = fs::read_to_string(bench.dir.path().join(file)).unwrap();
        assert!(text.contains(&format!("\nname = \"{name}\"\n")) && text.contains(block), "{text}");
    }
}

#[test]
fn toolchain_what_cannot_be_written_is_said() {
    let bench = Bench::new();
    let own = kernels().join("init");
    let refused = init(&bench, &own.join("struct.cu"), &[]).exits(2);
    assert!(refused.err.contains("parameter `p` is a `Params`"), "{}", refused.err);
    assert!(!bench.dir.path().join("struct.toml").exists());
    // An existing file is kept, unless it may be overwritten.
    fs::write(bench.dir.path().join("saxpy.toml"), "mine").unwrap();
    let kept = init(&bench, &own.join("saxpy.cu"), &[]).exits(2);
    assert!(kept.err.contains("saxpy.toml already exists") && kept.err.contains("--force"), "{}", kept.err);
    assert_eq!(fs::read_to_string(bench.dir.path().join("saxpy.toml")).unwrap(), "mine");
    written(&bench, &own.join("saxpy.cu"), &["--force"]);
    // In another directory, the path to the kernel is relative to it; the user's operator is used.
    fs::create_dir(bench.dir.path().join("tasks")).unwrap();
    init(&bench, &own.join("saxpy.cu"), &["-o", "tasks/a.toml", "--operator", "custom"]).exits(0);
    let text = fs::read_to_string(bench.dir.path().join("tasks/a.toml")).unwrap();
    assert!(text.contains("source = \"../saxpy.cu\"") && text.contains("operator = \"custom\"\n"), "{text}");
    assert!(bench.dir.path().join("tasks/a_reference.py").exists());
    let wrong = init(&bench, &own.join("saxpy.cu"), &["--operator", "sofmax"]).exits(2);
    assert!(wrong.err.contains("expected one of attention, softmax, layer_norm, gemm"), "{}", wrong.err);
    // A name alone is not sufficient: a kernel that computes something else gets a custom reference.
    let wrong = "__global__ void gelu(const float* in, float* out, int n) {\n\
        int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) out[i] = in[i] * in[i] * in[i];\n}\n";
    fs::write(bench.dir.path().join("gelu.cu"), wrong).unwrap();
    let said = bench.run(["init", "gelu.cu"]).exits(0).out;
    assert!(
        said.contains("operator = custom, because the kernel is called gelu, but in a run, `out` differs"),
        "{said}"
    );
    let python = fs::read_to_string(bench.dir.path().join("gelu_reference.py")).unwrap();
    assert!(python.contains("def reference(in_, n):"), "{python}");
    let forced = bench.run(["init", "gelu.cu", "--operator", "elementwise", "--force"]).exits(0).out;
    assert!(forced.contains("the kernel is wrong, or the operator is not elementwise"), "{forced}");
    let many = init(&bench, &root().join("corpus/cuda/templates.cu"), &[]).exits(2);
    assert!(many.err.contains("select one with --kernel"), "{}", many.err);
}

/// A kernel of the trial in the book, from `init` to a verdict: only the body of a reference is edited.
fn trial(file: &str) {
    let bench = Bench::new();
    let trial = root().join("tasks/trial");
    let dir = bench.dir.path();
    for neighbor in ["silu_and_mul.json", "silu_and_mul.ttir"] {
        fs::copy(trial.join(neighbor), dir.join(neighbor)).unwrap();
    }
    let said = init(&bench, &trial.join(file), &[]).exits(0).out;
    let name = file.split('.').next().unwrap();
    // Every size of the task ran and wrote its outputs.
    let sizes = said.lines().find(|line| line.contains("launch, arrays and extents")).unwrap();
    let counts: Vec<&str> = sizes.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect();
    assert!(counts.len() == 2 && counts[0] == counts[1], "{file}: {said}");
    let complete = trial.join("reference").join(format!("{name}.py"));
    let skeleton = dir.join(format!("{name}_reference.py"));
    assert_eq!(complete.exists(), skeleton.exists(), "{file}: {said}");
    if complete.exists() {
        let head = |path: &Path| -> String {
            let text = fs::read_to_string(path).unwrap();
            text.lines().find(|line| line.starts_with("def reference(")).unwrap().to_owned()
        };
        assert_eq!(head(&complete), head(&skeleton), "{file}");
        fs::copy(&complete, &skeleton).unwrap();
    }
    let task = format!("{name}.toml");
    let verdict = bench.run(["gate", &task]).exits(0).out;
    assert!(verdict.contains("PROVISIONAL") && verdict.contains("counters ✓"), "{file}: {verdict}");
}

#[test]
fn toolchain_trial_relu2() {
    trial("relu2.cu");
}

#[test]
fn toolchain_trial_rms_norm_add() {
    trial("rms_norm_add.cu");
}

#[test]
fn toolchain_trial_softmax_warp() {
    trial("softmax_warp.cu");
}

#[test]
fn toolchain_trial_gemm_i8() {
    trial("gemm_i8.cu");
}

#[test]
fn toolchain_trial_transpose() {
    trial("transpose.cu");
}

#[test]
fn toolchain_trial_histogram() {
    trial("histogram.cu");
}

#[test]
fn toolchain_trial_silu_and_mul() {
    trial("silu_and_mul.ptx");
}
