use super::*;

const SOFTMAX: &str = "
import math

def softmax(x, n, m):
    rows = []
    for row in x.tolist():
        top = max(row)
        e = [math.exp(v - top) for v in row]
        rows.append([v / sum(e) for v in e])
    assert (n, m) == tuple(x.shape)
    return rows
";

fn input(name: &str, dtype: Dtype, dims: &[usize], values: &[f64]) -> Input {
    Input { name: name.into(), dtype, tensor: Tensor::new(dims.to_vec(), values.to_vec()).unwrap() }
}

fn call(
    text: &str,
    inputs: &[Input],
    outputs: &[(&str, &[usize])],
) -> Result<BTreeMap<String, Tensor>, String> {
    call_for(20, text, inputs, outputs)
}

fn call_for(
    timeout_seconds: u32,
    text: &str,
    inputs: &[Input],
    outputs: &[(&str, &[usize])],
) -> Result<BTreeMap<String, Tensor>, String> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("reference.py"), text).unwrap();
    let function = if text.contains("def softmax") { "softmax" } else { "reference" };
    let python = Python {
        interpreter: interpreter(),
        directory: directory.path(),
        file: "reference.py",
        function,
        timeout_seconds,
        confiner: None,
    };
    let outputs: Vec<(String, Vec<usize>)> =
        outputs.iter().map(|(name, dims)| ((*name).to_owned(), dims.to_vec())).collect();
    let axes = Axes::from([("n".to_owned(), 2), ("m".to_owned(), 3)]);
    let result = python.run(inputs, &outputs, &axes).map_err(|unfit| unfit.0);
    // The user's directory is left as it was.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    result
}

fn matrix() -> Input {
    input("x", Dtype::F32, &[2, 3], &[0.0, 1.0, 2.0, 5.0, 5.0, -1e30])
}

#[test]
fn a_function_is_called_with_inputs_and_the_axes_it_names() {
    let results = call(SOFTMAX, &[matrix()], &[("y", &[2, 3])]).unwrap();
    let y = &results["y"];
    assert_eq!(y.dims, [2, 3]);
    let sum = 1.0 + 1f64.exp() + 2f64.exp();
    for (got, want) in y.values.iter().zip([1.0 / sum, 1f64.exp() / sum, 2f64.exp() / sum, 0.5, 0.5, 0.0]) {
        assert!((got - want).abs() < 1e-15, "{got} {want}");
    }
}

#[test]
fn several_outputs_are_a_dict_and_integers_are_exact() {
    let text = "
def reference(x, i, k, **axes):
    assert sorted(axes) == ['m', 'n'], axes
    assert k[0] == 2**63, k[0]
    return {'sum': sum(x[r, c] for r in range(2) for c in range(3)), 'y': [x[int(i[0]), 2]], 'more': 1}
";
    let inputs = [
        matrix(),
        input("i", Dtype::I32, &[1], &[0.0]),
        input("k", Dtype::U64, &[1], &[9223372036854775808.0]),
    ];
    let results = call(text, &inputs, &[("sum", &[]), ("y", &[1])]).unwrap();
    assert_eq!((&results["sum"].values, &results["y"].values), (&vec![13.0 - 1e30], &vec![2.0]));
    let missing = call("def reference(): return {'a': 1}", &[], &[("b", &[])]).unwrap_err();
    assert_eq!(missing, "reference.py: `reference` returned no `b`");
    let single = call("def reference(): return 1", &[], &[("a", &[]), ("b", &[])]).unwrap_err();
    assert_eq!(single, "reference.py: `reference` must return a dict with a, b");
}

/// With numpy it works; without, the message says how to get it. Both are looked at on one machine or the other.
#[test]
fn numpy_is_used_or_asked_for() {
    let text = "
import numpy
def reference(x):
    return (x.T @ x).astype(numpy.float32)
";
    match call(text, &[input("x", Dtype::F16, &[2, 2], &[1.0, 2.0, 3.0, 4.0])], &[("y", &[2, 2])]) {
        Ok(results) => assert_eq!(results["y"].values, [10.0, 14.0, 14.0, 20.0]),
        Err(sentence) => {
            assert!(sentence.contains("No module named 'numpy'; `"), "{sentence}");
            assert!(
                sentence.contains("-m pip install numpy`") && sentence.contains("WARPPROOF_PYTHON"),
                "{sentence}"
            );
        }
    }
}

#[test]
fn what_goes_wrong_is_told() {
    let wrong = |text: &str| call(text, &[matrix()], &[("y", &[2, 3])]).unwrap_err();
    let raised = wrong("def reference(x):\n    raise ValueError('a \\x1b[2J word')\n");
    assert!(raised.starts_with("reference.py: ValueError: a  [2J word (exit status: 1)\n"), "{raised}");
    assert!(raised.contains("line 2, in reference"), "{raised}");
    assert!(!raised.contains("warpproof_call.py") && raised.contains("File \"reference.py\""), "{raised}");
    let unknown = wrong("def reference(z): pass");
    assert!(!unknown.contains("Traceback") && !unknown.contains("File"), "{unknown}");
    let imported = wrong("import no_such_module\n");
    assert!(!imported.contains("importlib") && imported.contains("line 1, in <module>"), "{imported}");
    assert_eq!(
        wrong("def reference(x): pass"),
        "reference.py: the function returned None; it returns one array, or a dict by output name"
    );
    assert!(wrong("def other(x): pass").contains("reference.py: the file has no function `reference`"));
    assert!(wrong("def reference(x:").contains("SyntaxError"));
    assert!(wrong("def reference(z): pass").contains("unexpected keyword argument 'x'"));
    assert!(wrong("def reference(x): return 'text'").contains("no array of numbers"));
    assert!(wrong("def reference(x): return [[1, 2], [3]]").contains("no array of numbers"));
    let turned = wrong("def reference(x): return [[1, 2], [3, 4], [5, 6]]");
    assert_eq!(turned, "reference.py: `reference` for `y`: it should return [2, 3], and returned [3, 2]");
    let silent = wrong("import os\nos._exit(0)");
    assert_eq!(silent, "reference.py: `reference` for `y`: the result is no file");
    let none = Python {
        interpreter: "no-such-python".into(),
        directory: Path::new("."),
        file: "src/reference/python.py",
        function: "f",
        timeout_seconds: 1,
        confiner: None,
    };
    assert!(none.run(&[], &[], &Axes::new()).unwrap_err().0.contains("set WARPPROOF_PYTHON"));
}

#[test]
#[cfg(unix)]
fn a_confiner_is_told_what_is_needed_and_becomes_the_interpreter() {
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    fs::write(directory.path().join("reference.py"), "def reference(x): return x\n").unwrap();
    let script = "echo \"$@\" > \"$0\"; while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";
    let confiner = Confiner {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into(), told.clone().into(), "--read".into(), "/usr".into()],
    };
    let python = Python {
        interpreter: interpreter(),
        directory: directory.path(),
        file: "reference.py",
        function: "reference",
        timeout_seconds: 20,
        confiner: Some(&confiner),
    };
    let results = python.run(&[matrix()], &[("y".to_owned(), vec![2, 3])], &Axes::new()).unwrap();
    assert_eq!(results["y"].dims, [2, 3]);
    let told = fs::read_to_string(told).unwrap();
    let words: Vec<&str> = told.split_whitespace().collect();
    let shown = directory.path().display().to_string();
    assert_eq!(words[..5], ["--read", "/usr", "--read", &shown, "--write"]);
    // What it may write is neither the task's nor above it.
    assert!(!Path::new(&shown).starts_with(words[5]) && !Path::new(words[5]).starts_with(&shown), "{told}");
    assert_eq!((words[6], words[8]), ("--", "-I"), "{told}");
}

#[test]
fn a_function_that_does_not_end_is_ended() {
    let begun = Instant::now();
    let text = "import time\ndef reference(x):\n    time.sleep(1000)\n";
    let sentence = call_for(1, text, &[matrix()], &[("y", &[2, 3])]).unwrap_err();
    assert!(sentence.contains("was not done after 1 s, and was ended"), "{sentence}");
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[cfg(target_os = "linux")]
#[test]
fn disk_memory_and_the_directory_of_others_are_kept_from_it() {
    let inputs = [matrix()];
    let wrong = |text: &str| call(text, &inputs, &[("y", &[2, 3])]).unwrap_err();
    let disk = "def reference(x):\n    with open('big', 'wb') as f:\n        for _ in range(64): f.write(bytes(1 << 20))\n";
    assert!(wrong(disk).contains("File too large"), "{}", wrong(disk));
    let memory = "def reference(x):\n    return bytearray(1 << 40)\n";
    assert!(wrong(memory).contains("MemoryError"), "{}", wrong(memory));
    let large = "def reference(x): return [[1.0] * 1000000]";
    assert!(wrong(large).contains("what `reference` returned for `y` is too large"), "{}", wrong(large));
    let pipe = "import os, sys\ndef reference(x):\n    os.mkfifo('output-0.npy')\n    os._exit(0)\n";
    assert!(wrong(pipe).contains("the result is no file"));
    let surroundings = "
import os, sys
def reference(x):
    assert os.environ['HOME'] == os.getcwd(), os.environ
    assert 'CARGO_MANIFEST_DIR' not in os.environ
    assert sys.flags.isolated
    return x
";
    assert_eq!(call(surroundings, &inputs, &[("y", &[2, 3])]).unwrap()["y"], inputs[0].tensor);
}

#[test]
#[cfg(unix)]
fn what_it_puts_in_the_place_of_its_words_is_not_read() {
    let text = "
import os

def reference(x):
    os.remove('stderr')
    os.symlink('/etc/passwd', 'stderr')
    os._exit(1)
";
    let told = call(text, &[matrix()], &[("y", &[2, 3])]).unwrap_err();
    assert!(told.contains("it said nothing") && !told.contains("root"), "{told}");
}
