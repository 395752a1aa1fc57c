//! Options beyond the mask, on the software GPU: checks report nothing, errors are within the tolerance, the
//! bits equal the oracle's, and outputs that ignore an option are refused.
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[expect(dead_code, reason = "used by other tests")]
mod study;

use study::{Case, l4, lengths, toolchain};
use warpproof_kernels::format::OutputFormat;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::null::Null;
use warpproof_kernels::plan::{Plan, Request, Scales, Splits};
use warpproof_kernels::problem::{Granularity, Layout, Mask, Shape, Window};
use warpproof_kernels::{Answer, Attention};
use warpproof_toolchain::{CompileOptions, Source};

/// Two query heads for each key head, 33 queries against 97 keys.
fn grouped() -> Shape {
    Shape { heads: 4, kv_heads: 2, dim: 64, sequences: vec![lengths(33, 97)] }
}

fn packed() -> Shape {
    let sequences = vec![lengths(5, 70), lengths(80, 3), lengths(1, 200), lengths(7, 0)];
    Shape { sequences, ..grouped() }
}

/// Two queries against split keys.
fn decode(keys: usize) -> Request {
    let shape = Shape { sequences: vec![lengths(2, keys); 2], ..grouped() };
    Request { splits: Splits::Count(3), lse: true, ..Request::new(shape) }
}

/// The requests that every option is combined with: tails, shared key heads, different lengths, masks, scales
/// of rows, long rows, and split keys.
fn combinations() -> Vec<Request> {
    let scales = |granularity| Scales::all(granularity);
    let long = Shape { dim: 128, ..grouped() };
    let packed_decode =
        Shape { sequences: vec![lengths(1, 300), lengths(2, 30), lengths(1, 0)], ..long.clone() };
    vec![
        Request { lse: true, ..Request::new(grouped()) },
        Request { mask: Mask::Causal, scales: scales(Granularity::Row), ..Request::new(long) },
        Request {
            mask: Mask::Causal,
            layout: Layout::Bshd,
            lse: true,
            scales: scales(Granularity::Block),
            ..Request::new(packed())
        },
        Request { layout: Layout::Bshd, rung: Some("n5".to_owned()), ..Request::new(packed()) },
        decode(300),
        Request { mask: Mask::Causal, scales: scales(Granularity::Row), ..decode(140) },
        Request { layout: Layout::Bshd, lse: true, ..Request::new(packed_decode) },
    ]
}

/// Whether the tolerance of a request refuses an output, for some distribution.
fn refused(request: &Request, output: impl Fn(&warpproof_kernels::Inputs) -> Vec<u16>) -> bool {
    let plan = Plan::new(request, l4()).unwrap();
    Distribution::ALL.into_iter().any(|distribution| {
        let inputs = generate(&request.shape, distribution, 3, request.spec());
        let oracles = plan.oracles(&inputs).unwrap();
        let answer = Answer { output: output(&inputs), lse: None };
        let right = Answer { output: oracles.bits.output.clone(), lse: Some(oracles.bits.lse.clone()) };
        assert!(oracles.judge(&right).judgement.passed, "{distribution}");
        !oracles.judge(&answer).judgement.passed
    })
}

/// Whether a null output happens to be the right one.
fn is_right(null: Null, request: &Request) -> bool {
    let inputs = generate(&request.shape, Distribution::Normal, 3, request.spec());
    let exact = Plan::new(request, l4()).unwrap().exact(&inputs).unwrap();
    let right: Vec<u16> = exact.output.iter().map(|value| request.output.encode(*value)).collect();
    matches!(null, Null::TileSkipped | Null::TailSkipped) && null.answer(request, &inputs).unwrap() == right
}

/// Checks that the tolerance refuses null outputs, and the right output of `without`.
fn refuses(request: &Request, without: Option<&Request>) {
    for null in Null::ALL.into_iter().filter(|null| !is_right(*null, request)) {
        assert!(refused(request, |inputs| null.answer(request, inputs).unwrap()), "{null} {request:?}");
    }
    if let Some(without) = without {
        let other = |inputs: &warpproof_kernels::Inputs| {
            let sinks = inputs.sinks.clone().filter(|_| without.sinks);
            let slopes = inputs.slopes.clone().filter(|_| without.alibi);
            let inputs = warpproof_kernels::Inputs { sinks, slopes, ..inputs.clone() };
            let exact = Plan::new(without, l4()).unwrap().exact(&inputs).unwrap();
            exact.output.iter().map(|value| request.output.encode(*value)).collect()
        };
        assert!(refused(request, other), "the option is ignored: {request:?}");
    }
}

#[test]
fn toolchain_outputs_in_bf16() {
    for request in combinations() {
        let request = Request { output: OutputFormat::Bf16, ..request };
        Case::of(request.clone()).run();
        refuses(&request, None);
    }
}

#[test]
fn toolchain_outputs_in_bf16_on_the_rungs_of_the_family() {
    for id in ["n5", "n6", "n7", "n8", "n9"] {
        let shape = Shape::equal(1, 2, 100, 64);
        let request =
            Request { rung: Some(id.to_owned()), output: OutputFormat::Bf16, ..Request::new(shape) };
        Case::of(request).on(study::one_multiprocessor()).run();
    }
}

#[test]
fn codes_of_the_other_output_format_are_refused() {
    for (output, other) in [(OutputFormat::F16, OutputFormat::Bf16), (OutputFormat::Bf16, OutputFormat::F16)]
    {
        let request = Request { output, ..Request::new(grouped()) };
        let wrong = Request { output: other, ..request.clone() };
        let plan = Plan::new(&wrong, l4()).unwrap();
        assert!(refused(&request, |inputs| plan.bits(inputs).unwrap().output));
    }
}

const WINDOWS: [Window; 4] = [
    Window { left: Some(20), right: None },
    Window { left: Some(70), right: Some(5) },
    Window { left: None, right: Some(3) },
    Window { left: Some(0), right: Some(0) },
];

#[test]
fn toolchain_windows_around_the_place_of_a_query() {
    for window in [WINDOWS[0], WINDOWS[1]] {
        for request in combinations() {
            Case::of(Request { window, ..request }).run();
        }
    }
}

#[test]
fn toolchain_windows_of_one_side_and_of_one_key() {
    for window in [WINDOWS[2], WINDOWS[3]] {
        for request in combinations() {
            Case::of(Request { window, ..request }).run();
        }
    }
}

#[test]
fn outputs_without_the_window_are_refused() {
    for request in combinations() {
        let windowed = Request { window: Window { left: Some(20), right: Some(1) }, ..request.clone() };
        refuses(&windowed, Some(&request));
    }
}

/// Long rows of keys: tiles before, across and after the window, several rows of blocks.
#[test]
fn toolchain_windows_much_shorter_than_the_keys() {
    for (queries, keys, window) in [
        (300, 300, Window::left(63)),
        (300, 300, Window::left(64)),
        (260, 520, Window { left: Some(100), right: Some(30) }),
        (100, 300, Window { left: None, right: Some(0) }),
        (300, 100, Window::left(10)),
    ] {
        let shape = Shape { heads: 2, kv_heads: 1, dim: 64, sequences: vec![lengths(queries, keys)] };
        for mask in [Mask::Full, Mask::Causal] {
            let request = Request { mask, window, ..Request::new(shape.clone()) };
            Case::of(request).on(study::one_multiprocessor()).run();
        }
    }
    // Decode: the splits divide the window, not all keys.
    let shape = Shape { sequences: vec![lengths(1, 1000), lengths(2, 900)], ..grouped() };
    let request = Request {
        mask: Mask::Causal,
        window: Window::left(250),
        layout: Layout::Bshd,
        splits: Splits::Count(3),
        lse: true,
        ..Request::new(shape)
    };
    let plan = Plan::new(&request, l4()).unwrap();
    assert_eq!((plan.params.tiles_per_split, plan.params.splits), (2, 3));
    Case::of(request).run();
}

#[test]
fn blocks_take_the_tiles_of_their_windows_only() {
    let request = Request {
        mask: Mask::Causal,
        window: Window::left(100),
        rung: Some("n5".to_owned()),
        ..Request::new(Shape::equal(1, 1, 512, 64))
    };
    let plan = Plan::new(&request, l4()).unwrap();
    let keys: Vec<(usize, usize)> = plan.table().map(|work| work.keys).collect();
    let expected: Vec<(usize, usize)> =
        (0..8usize).map(|tile| ((64 * tile).saturating_sub(100) / 64 * 64, 64 * (tile + 1))).collect();
    assert_eq!(keys, expected);
}

#[test]
fn toolchain_soft_caps_on_the_scores() {
    for cap in [1.5, 50.0] {
        for request in combinations() {
            Case::of(Request { softcap: Some(cap), ..request }).run();
        }
    }
    // Scores far above the cap, negative factors, and a window.
    let shape = Shape { sequences: vec![lengths(40, 200)], ..grouped() };
    let window = Window { left: Some(80), right: Some(4) };
    for scale in [4.0, -0.5, 0.0] {
        let request =
            Request { softmax_scale: Some(scale), softcap: Some(3.0), ..Request::new(shape.clone()) };
        Case::of(Request { window, lse: true, ..request }).run();
    }
}

#[test]
fn outputs_without_the_soft_cap_are_refused() {
    for request in combinations() {
        let capped = Request { softcap: Some(0.7), ..request.clone() };
        refuses(&capped, Some(&request));
    }
}

#[test]
fn soft_caps_that_are_not_positive_numbers_are_refused() {
    for cap in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e39, 1e-45] {
        let request = Request { softcap: Some(cap), softmax_scale: Some(1e-30), ..Request::new(grouped()) };
        let error = Plan::new(&request, l4()).unwrap_err().to_string();
        assert!(error.contains("soft cap") || error.contains("softmax scale"), "{error}");
    }
}

#[test]
fn toolchain_attention_sinks() {
    for request in combinations() {
        Case::of(Request { sinks: true, lse: true, ..request }).run();
    }
    // Rows that see no key have the sink alone; a window and a cap with split keys.
    let nothing = Shape { sequences: vec![lengths(3, 0); 2], ..grouped() };
    for splits in [Splits::None, Splits::Count(2)] {
        Case::of(Request { sinks: true, lse: true, splits, ..Request::new(nothing.clone()) }).run();
    }
    let (window, softcap) = (Window::left(90), Some(2.0));
    Case::of(Request { sinks: true, window, softcap, mask: Mask::Causal, ..decode(400) }).run();
}

#[test]
fn toolchain_a_sink_that_outweighs_all_keys_leaves_zeros() {
    let request = Request { sinks: true, lse: true, ..decode(200) };
    let mut inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    inputs.sinks = Some(vec![300.0, -300.0, 0.0, 80.0]);
    let plan = Plan::new(&request, l4()).unwrap();
    let oracles = plan.oracles(&inputs).unwrap();
    assert!(oracles.exact.lse[..2].iter().all(|lse| (lse - 300.0).abs() < 1e-9));
    let toolchain = toolchain();
    let mut gpu = warpproof_sim::Device::new();
    let ptx = plan.compile(toolchain).unwrap();
    let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
    let answer = attention.run_inputs(&mut gpu, &inputs).unwrap();
    let verdict = oracles.judge(&answer);
    assert!(verdict.passed(), "{verdict:?}");
    assert!(answer.output[..2 * 64].iter().all(|code| matches!(code, 0 | 0x8000)));
}

#[test]
fn outputs_without_the_sinks_are_refused() {
    for request in combinations() {
        refuses(&Request { sinks: true, ..request.clone() }, Some(&request));
    }
}

#[test]
fn toolchain_alibi() {
    for request in combinations() {
        Case::of(Request { alibi: true, ..request }).run();
    }
    // With all other options; keys after the query's place too, and far more queries than keys.
    let (window, softcap) = (Window { left: Some(100), right: Some(9) }, Some(4.0));
    let all = |request: Request| Request { alibi: true, sinks: true, window, softcap, ..request };
    Case::of(all(decode(400))).run();
    for (queries, keys) in [(40, 200), (200, 40)] {
        let shape = Shape { sequences: vec![lengths(queries, keys)], ..grouped() };
        let output = OutputFormat::Bf16;
        Case::of(Request { output, lse: true, ..all(Request::new(shape)) }).run();
    }
}

#[test]
fn outputs_without_alibi_are_refused() {
    for request in combinations() {
        refuses(&Request { alibi: true, ..request.clone() }, Some(&request));
    }
}

#[test]
fn toolchain_keys_in_pages_of_64() {
    for request in combinations() {
        Case::of(Request { page_size: Some(64), ..request }).run();
    }
}

#[test]
fn toolchain_keys_in_pages_of_128_and_256() {
    for (request, page_size) in combinations().into_iter().zip([128, 256].into_iter().cycle()) {
        Case::of(Request { page_size: Some(page_size), ..request }).run();
    }
}

#[test]
fn toolchain_pages_with_scales_of_every_granularity() {
    let sequences = vec![lengths(1, 500), lengths(2, 130), lengths(1, 64), lengths(2, 0)];
    let shape = Shape { sequences, ..grouped() };
    for granularity in Granularity::ALL {
        for splits in [Splits::None, Splits::Count(3)] {
            let request = Request {
                page_size: Some(128),
                scales: Scales::all(granularity),
                layout: Layout::Bshd,
                mask: Mask::Causal,
                splits,
                lse: true,
                ..Request::new(shape.clone())
            };
            Case::of(request).run();
        }
    }
}

#[test]
fn toolchain_pages_with_all_other_options() {
    let (window, softcap) = (Window { left: Some(100), right: Some(9) }, Some(4.0));
    let all = |request: Request| Request {
        page_size: Some(64),
        output: OutputFormat::Bf16,
        alibi: true,
        sinks: true,
        window,
        softcap,
        ..request
    };
    for request in combinations().into_iter().chain([decode(400)]) {
        Case::of(all(request)).run();
    }
}

/// A kernel that takes pages in the order of the pool, or the page of the tile before, is detected.
#[test]
fn toolchain_wrong_pages_are_detected() {
    let toolchain = toolchain();
    let shape = Shape { sequences: vec![lengths(70, 400), lengths(40, 130)], ..grouped() };
    for request in [
        Request { page_size: Some(64), layout: Layout::Bshd, ..Request::new(shape) },
        Request { page_size: Some(128), ..decode(600) },
    ] {
        let plan = Plan::new(&request, l4()).unwrap();
        let text = warpproof_kernels::source::expanded(plan.fit.source).unwrap();
        let right = "p.pages[batch * p.max_pages + (key >> p.page_shift)]";
        assert_eq!(text.matches(right).count(), 1);
        for (wrong, passes) in
            [(right, true), ("(key >> p.page_shift)", false), ("p.pages[batch * p.max_pages]", false)]
        {
            let source = Source::new("n5.cu", text.replace(right, wrong));
            let options = CompileOptions {
                defines: plan.defines.clone(),
                std: Some("c++17".to_owned()),
                ..CompileOptions::new(plan.arch.as_str())
            };
            let ptx = toolchain.compile(&source, &options).unwrap().ptx;
            let mut gpu = warpproof_sim::Device::new();
            let attention = Attention::load(plan.clone(), &ptx, &mut gpu).unwrap();
            let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
            let answer = attention.run_inputs(&mut gpu, &inputs).unwrap();
            let verdict = plan.oracles(&inputs).unwrap().judge(&answer);
            assert_eq!((verdict.judgement.passed, verdict.passed()), (passes, passes), "{wrong}");
        }
    }
}

#[test]
fn other_page_sizes_are_refused() {
    for page_size in [0, 1, 32, 96, 512] {
        let request = Request { page_size: Some(page_size), ..Request::new(grouped()) };
        let error = Plan::new(&request, l4()).unwrap_err().to_string();
        assert_eq!(error, format!("expected pages of 64, 128 or 256 keys, found {page_size}"));
    }
}

#[test]
fn values_of_heads_that_do_not_match_the_request_are_refused() {
    let request = Request { sinks: true, ..Request::new(grouped()) };
    let plan = Plan::new(&request, l4()).unwrap();
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    assert!(plan.oracles(&inputs).is_ok());
    for sinks in [None, Some(vec![1.0; 3]), Some(vec![1.0, 2.0, f32::NAN, 0.0])] {
        let inputs = warpproof_kernels::Inputs { sinks, ..inputs.clone() };
        assert!(plan.exact(&inputs).is_err() && plan.bits(&inputs).is_err());
    }
    let plain = Plan::new(&Request::new(grouped()), l4()).unwrap();
    assert!(plain.exact(&inputs).is_err() && plain.bits(&inputs).is_err());
}

/// Requests of both row lengths, changed by an option.
fn with_option(option: impl Fn(Request) -> Request) -> Vec<Request> {
    let both = combinations().into_iter().skip(2).step_by(3).flat_map(|request| {
        let other = Shape { dim: 192 - request.shape.dim, ..request.shape.clone() };
        [Request { shape: other, ..request.clone() }, request]
    });
    both.map(option).collect()
}

/// Checks that kernels with an option neither spill nor use the stack.
fn stays_in_registers(option: impl Fn(Request) -> Request) {
    let toolchain = toolchain();
    for request in with_option(option) {
        let plan = Plan::new(&request, l4()).unwrap();
        let ptx = plan.compile(toolchain).unwrap();
        for used in toolchain.ptxas(&ptx, &plan.arch, &[]).unwrap().resources {
            let all = (used.spill_stores, used.spill_loads, used.stack_frame);
            assert_eq!(all, (0, 0, 0), "{} {:?}", used.kernel, plan.defines);
        }
    }
}

#[test]
fn toolchain_windows_and_soft_caps_neither_spill_nor_use_the_stack() {
    stays_in_registers(|request| Request { window: WINDOWS[1], ..request });
    stays_in_registers(|request| Request { softcap: Some(30.0), ..request });
}

#[test]
fn toolchain_sinks_alibi_and_pages_neither_spill_nor_use_the_stack() {
    let output = OutputFormat::Bf16;
    stays_in_registers(|request| Request { output, sinks: true, alibi: true, ..request });
    stays_in_registers(|request| Request { page_size: Some(64), ..request });
}

#[test]
fn rungs_without_an_option_refuse_it() {
    let with = |id: &str| Request { rung: Some(id.to_owned()), ..Request::new(grouped()) };
    let refused = |request: Request| Plan::new(&request, l4()).unwrap_err().to_string();
    let bf16 = Request { output: OutputFormat::Bf16, ..with("n4") };
    assert_eq!(refused(bf16), "rung n4-mma-fp8 does not support outputs in bf16");
    let window = Request { window: Window::left(5), ..with("n4") };
    assert_eq!(refused(window), "rung n4-mma-fp8 does not support sliding windows");
    let softcap = Request { softcap: Some(5.0), ..with("n3") };
    assert_eq!(refused(softcap), "rung n3-register-p does not support soft caps");
    let sinks = Request { sinks: true, ..with("n4") };
    assert_eq!(refused(sinks), "rung n4-mma-fp8 does not support attention sinks");
    assert_eq!(refused(Request { alibi: true, ..with("n4") }), "rung n4-mma-fp8 does not support ALiBi");
    let long = Shape { heads: 1, kv_heads: 1, dim: 64, sequences: vec![lengths(1, 1 << 24)] };
    let error = refused(Request { alibi: true, ..Request::new(long) });
    assert!(error.ends_with("ALiBi with 2^24 queries and keys or more"), "{error}");
    let pages = Request { page_size: Some(64), ..with("n4") };
    assert_eq!(refused(pages), "rung n4-mma-fp8 does not support paged keys");
}
