use std::fs;

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

/// A time limit, in seconds, that no busy machine reaches.
const LONG: u32 = 3_600;

fn input(name: &str, dtype: Dtype, dims: &[usize], values: &[f64]) -> Input {
    Input { name: name.into(), dtype, tensor: Tensor::new(dims.to_vec(), values.to_vec()).unwrap() }
}

fn call(
    text: &str,
    inputs: &[Input],
    outputs: &[(&str, &[usize])],
) -> Result<BTreeMap<String, Tensor>, String> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("reference.py"), text).unwrap();
    let workers = Workers::new(1, false);
    let python = python(directory.path(), &workers);
    let function = if text.contains("def softmax") { "softmax" } else { "reference" };
    let outputs: Vec<(String, Vec<usize>)> =
        outputs.iter().map(|(name, dims)| ((*name).to_owned(), dims.to_vec())).collect();
    let axes = Axes::from([("n".to_owned(), 2), ("m".to_owned(), 3)]);
    let result = Python { function, ..python }.run(inputs, &outputs, &axes).map_err(|error| error.sentence);
    // The user's directory must stay unchanged.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    result
}

fn python<'a>(directory: &'a Path, workers: &'a Workers) -> Python<'a> {
    Python {
        interpreter: interpreter(),
        directory,
        allowed: &[],
        file: "reference.py",
        function: "reference",
        timeout_seconds: LONG,
        memory_mb: 1024,
        workers,
    }
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

/// With numpy the call succeeds; without it, the message explains how to install it. Each machine tests one of the
/// two.
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
    assert!(raised.starts_with("reference.py: ValueError: a  [2J word\n"), "{raised}");
    assert!(raised.contains("line 2, in reference"), "{raised}");
    assert!(!raised.contains("<string>") && raised.contains("File \"reference.py\""), "{raised}");
    let unknown = wrong("def reference(z): pass");
    assert!(!unknown.contains("Traceback") && !unknown.contains("File"), "{unknown}");
    let imported = wrong("import no_such_module\n");
    assert!(!imported.contains("importlib") && imported.contains("line 1, in <module>"), "{imported}");
    assert_eq!(
        wrong("def reference(x): pass"),
        "reference.py: expected an array or a dict by output name, found None"
    );
    assert!(wrong("def other(x): pass").contains("reference.py: the file has no function `reference`"));
    assert!(wrong("def reference(x:").contains("SyntaxError"));
    assert!(wrong("def reference(z): pass").contains("unexpected keyword argument 'x'"));
    assert!(wrong("def reference(x): return 'text'").contains("must return an array of numbers"));
    assert!(wrong("def reference(x): return [[1, 2], [3]]").contains("must return an array of numbers"));
    let turned = wrong("def reference(x): return [[1, 2], [3, 4], [5, 6]]");
    assert_eq!(turned, "reference.py: `reference` for `y`: expected extents [2, 3], found [3, 2]");
    let silent = wrong("import os\nos._exit(0)");
    assert_eq!(silent, "reference.py: it printed nothing (exit status: 0)");
    let workers = Workers::new(1, false);
    let none = Python {
        interpreter: "no-such-python".into(),
        file: "src/reference/python.py",
        ..python(Path::new("."), &workers)
    };
    assert!(none.run(&[], &[], &Axes::new()).unwrap_err().sentence.contains("set WARPPROOF_PYTHON"));
}

/// Calls `reference` of a file several times in one process.
fn calls(text: &str, count: usize) -> Vec<Result<Vec<f64>, PythonError>> {
    calls_within(&vec![LONG; count], text)
}

/// The same, with a time limit for each call.
fn calls_within(limits: &[u32], text: &str) -> Vec<Result<Vec<f64>, PythonError>> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("reference.py"), text).unwrap();
    let workers = Workers::new(1, false);
    let outputs = [("y".to_owned(), Vec::new())];
    let once = |timeout_seconds: &u32| {
        let python = Python { timeout_seconds: *timeout_seconds, ..python(directory.path(), &workers) };
        python.run(&[], &outputs, &Axes::new()).map(|results| results["y"].values.clone())
    };
    limits.iter().map(once).collect()
}

#[test]
fn one_process_answers_many_calls() {
    let text = "import os\ncount = 0\ndef reference():\n    global count\n    count += 1\n    return count * 1e9 + os.getpid()\n";
    let values: Vec<f64> = calls(text, 3).into_iter().map(|value| value.unwrap()[0]).collect();
    let pid = values[0] - 1e9;
    assert_eq!(values, [1e9 + pid, 2e9 + pid, 3e9 + pid]);
    // An exception ends the call, not the process.
    let text = "count = 0\ndef reference():\n    global count\n    count += 1\n    assert count != 2\n    return count\n";
    let found: Vec<bool> = calls(text, 3).iter().map(Result::is_ok).collect();
    assert_eq!(found, [true, false, true]);
}

#[test]
fn a_process_that_ends_or_hangs_is_started_anew() {
    let text = "import os\ncount = 0\ndef reference():\n    global count\n    count += 1\n    if count == 2: os._exit(7)\n    return count\n";
    let found: Vec<Option<f64>> = calls(text, 3).into_iter().map(|value| Some(value.ok()?[0])).collect();
    assert_eq!(found, [Some(1.0), None, Some(1.0)]);
    let text = "import time\ncount = 0\ndef reference():\n    global count\n    count += 1\n    time.sleep(100_000 * (count - 1))\n    return count\n";
    // The process has started when the call begins that hangs.
    let found = calls_within(&[LONG, 1, LONG], text);
    let error = found[1].as_ref().unwrap_err();
    assert!(error.limit && error.sentence.contains("timeout_seconds"), "{error}");
    assert!(error.sentence.contains("did not finish within 1 s and was killed"), "{error}");
    assert_eq!((found[0].clone().unwrap(), found[2].clone().unwrap()), (vec![1.0], vec![1.0]));
}

#[test]
fn an_answer_that_was_not_asked_for_is_refused() {
    for reply in [
        "no JSON",
        "{}",
        "{\"outputs\": [[1000000000, 1000000000]]}",
        "{\"outputs\": [[18446744073709551615, 2]]}",
        "{\"outputs\": []}",
    ] {
        // The file finds the descriptor of the replies and writes to it.
        let text = format!(
            "import os\ndef reference():\n    for fd in range(3, 20):\n        try: os.write(fd, b'{reply}\\n')\n        except OSError: pass\n    return 1\n"
        );
        let error = calls(&text, 1).remove(0).unwrap_err();
        assert!(error.sentence.contains("unexpected reply"), "{reply}: {error}");
    }
}

#[test]
fn too_much_memory_is_a_limit_and_names_the_key() {
    let error = calls("def reference():\n    return len(bytearray(3 << 30))\n", 1).remove(0).unwrap_err();
    assert!(
        error.limit && error.sentence.contains("1024 MB") && error.sentence.contains("`memory_mb`"),
        "{error}"
    );
    let half = calls("def reference():\n    return len(bytearray(1 << 29))\n", 1).remove(0).unwrap();
    assert_eq!(half, [536870912.0]);
}

#[test]
#[cfg(target_os = "linux")]
fn it_reads_its_task_and_nothing_else_of_the_user() {
    if !warpproof_sandbox::available().is_whole() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (task, secret) = (place.path().join("task"), place.path().join("secret"));
    fs::create_dir(&task).unwrap();
    fs::write(&secret, "1").unwrap();
    fs::write(task.join("data"), "2").unwrap();
    let text = format!(
        "import os, socket\ndef tried(work):\n    try:\n        work()\n        return 1\n    except OSError:\n        return 0\n\
         def reference():\n    here, there = os.path.dirname(__file__), {secret:?}\n    return [\n\
         tried(lambda: open(os.path.join(here, 'data')).read()), tried(lambda: open('own', 'w').write('x')),\n\
         tried(lambda: open(there).read()), tried(lambda: open(there, 'w')), tried(lambda: os.remove(there)),\n\
         tried(lambda: open(os.path.join(here, 'data'), 'w')), tried(lambda: open(os.path.join(here, 'new'), 'w')),\n\
         tried(lambda: socket.socket()), tried(lambda: os.kill(os.getppid(), 0))]\n"
    );
    fs::write(task.join("reference.py"), text).unwrap();
    let workers = Workers::new(1, false);
    let run = |allowed: &[std::path::PathBuf]| {
        let python = Python { allowed, ..python(&task, &workers) };
        python.run(&[], &[("y".to_owned(), vec![9])], &Axes::new()).unwrap()["y"].values.clone()
    };
    assert_eq!(run(&[]), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let workers = Workers::new(1, false);
    let python = Python { allowed: &[place.path().to_owned()], ..python(&task, &workers) };
    let values = python.run(&[], &[("y".to_owned(), vec![9])], &Axes::new()).unwrap()["y"].values.clone();
    assert_eq!(values[2..5], [1.0, 0.0, 0.0]);
    assert_eq!((fs::read_to_string(&secret).unwrap().as_str(), task.join("new").exists()), ("1", false));
}

#[cfg(target_os = "linux")]
#[test]
fn disk_memory_and_the_directory_of_others_are_kept_from_it() {
    let inputs = [matrix()];
    let wrong = |text: &str| call(text, &inputs, &[("y", &[2, 3])]).unwrap_err();
    let disk = "def reference(x):\n    with open('big', 'wb') as f:\n        for _ in range(64): f.write(bytes(1 << 20))\n";
    assert!(wrong(disk).contains("File too large"), "{}", wrong(disk));
    let large = "def reference(x): return [[1.0] * 1000000]";
    assert!(
        wrong(large).contains("the array that `reference` returned for `y` is too large"),
        "{}",
        wrong(large)
    );
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
