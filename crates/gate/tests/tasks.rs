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
