//! The model predicts causal attention from a sample of its blocks, whose work depends on their position. Needs NVIDIA's
//! compiler.

use warpproof_count::{CountSettings, Counters, SampleSize};
use warpproof_explain::{Explanation, Request, Scheduled, explain};
use warpproof_kernels::attention::Attention;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::plan::{Plan, Request as Wanted};
use warpproof_kernels::problem::{Mask, Shape};
use warpproof_launch::Counting;
use warpproof_model::Device;
use warpproof_toolchain::{Options, Toolchain, WITHOUT_TOOLCHAIN};

#[test]
fn toolchain_causal_attention_is_predicted_from_a_sample() {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12));
    let toolchain = toolchain.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
    let device = Device::named("l4").unwrap();
    let shape = Shape::equal(2, 8, 512, 64);
    let wanted = Wanted { rung: Some("n5".to_owned()), mask: Mask::Causal, ..Wanted::new(shape.clone()) };
    let plan = Plan::new(&wanted, device).unwrap();
    let ptx = plan.compile(&toolchain).unwrap();
    let inputs = generate(&shape, Distribution::Normal, 0, wanted.spec());
    let count = |sample: Option<SampleSize>| -> Counters {
        let settings = CountSettings { sample, ..CountSettings::default() };
        let mut gpu = Counting::new(warpproof_sim::Device::new()).with_settings(settings);
        let attention = Attention::load(plan.clone(), &ptx, &mut gpu).unwrap();
        attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).unwrap();
        assert_eq!(gpu.counters.len(), 1);
        gpu.counters.remove(0)
    };
    let (full, sample) = (count(None), count(Some(SampleSize::Millionths(250_000))));
    let sampling = sample.sampled.as_ref().unwrap();
    assert_eq!(sampling.of, full.blocks);
    assert_eq!(sampling.blocks, full.blocks.div_ceil(4));
    // Blocks do differ, and every margin covers the truth.
    assert!(sampling.margins["executions"] > 0);
    let (estimates, truths) = (sample.totals.flat(), full.totals.flat());
    for (name, truth) in &truths {
        let estimate = estimates.get(name).copied().unwrap_or(0);
        let margin = sampling.margins.get(name).copied().unwrap_or(0);
        assert!(estimate.abs_diff(*truth) <= margin, "{name}: {estimate} ± {margin}, counted {truth}");
    }
    // All of q, k and v are loaded, and all of the output is stored.
    assert_eq!(sample.compulsory.grid_stored, full.compulsory.grid_stored);
    let predict = |counters: &Counters| -> Explanation {
        let request = Request {
            kernel: "attention",
            symbol: "attention",
            ptx: &ptx,
            counters,
            device,
            floor: None,
            whole: None,
            timeline: 0,
            offers: false,
            text: &|_, _| None,
        };
        explain(&request, &toolchain).unwrap().0
    };
    let (exact, sampled) = (predict(&full), predict(&sample));
    assert_eq!((exact.sampled.is_none(), sampled.sampled.as_ref()), (true, Some(sampling)));
    let close = |a: f64, b: f64, what: &str| assert!((a / b - 1.0).abs() < 0.05, "{what}: {a} and {b}");
    let bound = |one: &Explanation| one.predicted.bounds.binding_warm().0.unwrap().us;
    close(bound(&sampled), bound(&exact), "bound");
    let time = |one: &Explanation| match &one.predicted.schedule {
        Scheduled::Known(timed) => (timed.cold.us, timed.warm.us),
        Scheduled::Uncertain { why } => panic!("{why}"),
    };
    let ((cold, warm), (exact_cold, exact_warm)) = (time(&sampled), time(&exact));
    close(cold, exact_cold, "cold");
    close(warm, exact_warm, "warm");
}
