//! The tasks of this repository, through the references.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use warpproof_task::Task;
use warpproof_task::Values;
use warpproof_task::dtype::Dtype;

fn read(name: &str) -> Task {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks").join(name);
    Task::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_ladder_is_the_task_s() {
    use warpproof_kernels::ladder::LADDER;
    let task = read("attention.toml");
    for rung in LADDER {
        assert!(task.candidate(rung.id).is_some(), "{}", rung.id);
    }
    let device = warpproof_model::Device::named("l4").unwrap();
    for candidate in &task.candidates {
        for size in task.sizes(3) {
            let shape = size.name.split(':').next().unwrap();
            if candidate.shapes.as_ref().is_some_and(|all| all.iter().all(|name| name.value != shape)) {
                continue;
            }
            let plan = warpproof_gate::family::attention::plan(&task, candidate, &size, device);
            assert!(plan.is_ok(), "{} {}: {}", candidate.name.value, size.name, plan.unwrap_err());
        }
    }
    // One case from end to end: the exact output in f16 is right.
    let (size, candidate) = (&task.sizes(3)[2], task.candidate("n4").unwrap());
    let plan = warpproof_gate::family::attention::plan(&task, candidate, size, device).unwrap();
    let inputs =
        warpproof_gate::family::attention::generate(&plan, &task.data.distributions[1].values, 1).unwrap();
    let exact = plan.exact(&inputs).unwrap();
    let codes: Vec<u16> =
        exact.output.iter().map(|value| u16::try_from(Dtype::F16.encode(*value)).unwrap()).collect();
    let tolerance = exact.tolerance.as_ref().unwrap();
    let errors = warpproof_tolerance::error::Errors::of(&codes, &exact.output, exact.rows.dim, tolerance);
    assert!(tolerance.judge(&errors).passed);
}

#[test]
fn inputs_are_the_same_for_the_same_seed() {
    let task = read("softmax.toml");
    let axes = &task.sizes(0)[0].axes;
    for distribution in &task.data.distributions {
        let make =
            |seed| warpproof_gate::inputs::generate(&task, axes, Dtype::F32, distribution, seed).unwrap();
        let one = make(1);
        assert_eq!(one, make(1));
        assert_eq!(one[0].bytes().len(), 16 * 1024 * 4);
        let random = !matches!(distribution.values, Values::Constant { .. } | Values::Structured);
        assert_eq!(one != make(2), random, "{}", distribution.name.value);
        assert!(one[0].tensor.values.iter().all(|value| value.is_finite()));
    }
}

/// The tensors of kernels with a source of their own: what the exact output rounds to is accepted, and each wrong output
/// is refused.
#[test]
fn own_attention_kernels_have_inputs_limits_and_wrong_outputs() {
    use warpproof_gate::family::attention::{own_expected, own_wrong};
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/own/attention.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let variants = [
        ("format = \"linear8\"", "format = \"linear8\""),
        ("format = \"linear8\"\nscales = \"head\"", "format = \"e4m3\"\nscales = \"row\""),
        ("scales = \"head\"\nlayout = \"bhsd\"", "scales = \"block\"\nlayout = \"bshd\""),
        ("causal = false", "causal = true\nsinks = true"),
    ];
    for (from, to) in variants {
        assert!(text.contains(from));
        let task = Task::parse(&text.replace(from, to)).unwrap();
        let size = task.sizes(0).into_iter().find(|size| size.name == "tail:s=70").unwrap();
        let make = |seed| {
            let distribution = &task.data.distributions[0];
            warpproof_gate::inputs::generate(&task, &size.axes, Dtype::F32, distribution, seed).unwrap()
        };
        let inputs = make(1);
        assert_eq!(inputs, make(1));
        assert_ne!(inputs, make(2));
        let expected = own_expected(&task, &size, &inputs).unwrap();
        let right = expected.dtype.bytes(&expected.tensor.values);
        assert!(expected.judge(&right, task.tolerance.non_finite).1.passed, "{to}");
        let wrong = own_wrong(&task, &size, &inputs).unwrap();
        assert_eq!(
            wrong.iter().any(|(name, _)| name == "the causal mask ignored"),
            to.contains("causal = true")
        );
        for (name, output) in wrong {
            assert!(!expected.judge(&output, task.tolerance.non_finite).1.passed, "{to}: {name}");
        }
    }
}
