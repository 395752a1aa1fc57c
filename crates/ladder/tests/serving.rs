//! Triton's kernels for the shapes of inference servers compute attention, and a part of a launch stands for the whole.

use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::ladder::rung;
use warpproof_kernels::oracle::exact::{Options as Exactly, attention};
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::{Mask, Shape};
use warpproof_ladder::serving::{Time, TritonFormat, WORST_ERROR, ours, triton_output};
use warpproof_model::Device;
use warpproof_toolchain::{Options, Toolchain, WITHOUT_TOOLCHAIN};

#[test]
fn triton_computes_attention() {
    for (shape, splits) in [
        ([1, 4, 2, 130, 100, 64], 1),
        ([2, 2, 1, 17, 70, 128], 1),
        ([2, 8, 2, 1, 200, 64], 3),
        ([1, 16, 1, 1, 100, 128], 2),
    ] {
        let shape = Shape::of(shape);
        let inputs = generate(&shape, Distribution::Normal, 1, Request::new(shape.clone()).spec());
        let exact = attention(&inputs, Mask::Full, &Exactly::default()).unwrap().output;
        // Scores, weights and inputs are rounded to the format; e4m3 has a step of an eighth.
        for (format, limit) in [(TritonFormat::F16, 0.002), (TritonFormat::E4m3, 0.15)] {
            let output = triton_output(&inputs, format, splits).unwrap();
            assert_eq!(output.len(), exact.len());
            let errors: f64 = output.iter().zip(&exact).map(|(got, exact)| (got - exact).abs()).sum();
            let magnitudes: f64 = exact.iter().map(|value| value.abs()).sum();
            assert!(errors < limit * magnitudes, "{shape} {format:?}: {}", errors / magnitudes);
        }
    }
}

#[test]
fn toolchain_a_part_of_a_launch_stands_for_the_whole() {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12));
    let toolchain = toolchain.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
    let l4 = Device::named("L4").unwrap();
    for shape in [[2, 8, 8, 256, 256, 64], [4, 8, 2, 1, 512, 128]] {
        let shape = Shape::of(shape);
        let request = Request::new(shape.clone());
        let plan = Plan::new(&request, l4).unwrap();
        let whole = warpproof_ladder::rung(rung(plan.rung.id).unwrap(), &shape, l4, &toolchain).unwrap();
        let whole = whole.predicted.schedule_warm_us.unwrap();
        let part = ours(&request, l4, &toolchain).unwrap();
        assert_eq!((part.kernel.as_str(), part.launches), (plan.rung.id, plan.steps.len()));
        assert!((part.us / whole - 1.0).abs() < 0.05, "{shape}: {} µs, {whole} µs of the whole", part.us);
    }
}

#[test]
fn an_interval_holds_the_times_whose_error_is_at_most_the_worst() {
    let time = Time { kernel: String::new(), us: 100.0, launches: 1, busy: Vec::new(), lost: Vec::new() };
    let (least, most) = time.interval();
    for measured in [least, most] {
        assert!(((100.0 / measured - 1.0).abs() - WORST_ERROR).abs() < 1e-9, "{measured}");
    }
}
