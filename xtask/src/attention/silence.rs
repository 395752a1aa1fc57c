//! Runs every rung and feature with all checks under several schedules: a finding is a bug of the kernel or of a check.

use warpproof_kernels::attention::Attention;
use warpproof_kernels::format::{Format, OutputFormat};
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::ladder::{Feature, LADDER};
use warpproof_kernels::plan::{Plan, Request, Scales, Splits};
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape, Window};
use warpproof_launch::Checking;
use warpproof_toolchain::Toolchain;

use super::{l4, progress};

/// Schedules of each launch.
const SCHEDULES: u32 = 8;

/// The result of the checks.
pub(super) struct Silence {
    /// How much was run.
    pub(super) summary: String,
    /// Findings and errors, which should not occur.
    pub(super) wrong: Vec<String>,
}

/// Runs all plans.
pub(super) fn run(toolchain: &Toolchain, rung: Option<&str>, quick: bool) -> Silence {
    let (mut launches, mut wrong) = (0, Vec::new());
    let requests: Vec<Request> = requests(quick)
        .into_iter()
        .filter(|request| rung.is_none_or(|rung| request.rung.as_deref() == Some(rung)))
        .collect();
    for request in &requests {
        match checked(toolchain, request) {
            Ok(count) => launches += count,
            Err(error) => {
                let rung = request.rung.as_deref().unwrap_or_default();
                wrong.push(format!("{rung} {} {:?}: {error}", request.shape, request.toggles));
            }
        }
    }
    progress("");
    let summary = format!(
        "{launches} launches of {} plans without a finding under {SCHEDULES} schedules; {} plans failed",
        requests.len() - wrong.len(),
        wrong.len()
    );
    Silence { summary, wrong }
}

/// Runs one plan under the checks and returns its number of launches.
pub(super) fn checked(toolchain: &Toolchain, request: &Request) -> Result<usize, String> {
    let plan = Plan::new(request, l4()?).map_err(|error| error.to_string())?;
    let defines = plan.defines.join(" ");
    progress(&format!("checks: {} {} {defines}", plan.rung.name, request.shape));
    let ptx = plan.compile(toolchain).map_err(|error| error.to_string())?;
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    let mut gpu = Checking::new(warpproof_sim::Device::new(), SCHEDULES);
    let attention = Attention::load(plan, &ptx, &mut gpu).map_err(|error| error.to_string())?;
    let answer = attention.run_inputs(&mut gpu, &inputs).map_err(|error| format!("{defines}: {error}"))?;
    if let Some(finding) = gpu.findings.first() {
        return Err(format!("{defines}: unexpected finding: {finding}"));
    }
    let verdict = attention.plan().oracles(&inputs).map_err(|error| error.to_string())?.judge(&answer);
    if !verdict.passed() {
        return Err(format!("{defines}: {verdict:?}"));
    }
    Ok(gpu.outcomes.len())
}

/// A request with each option that the rungs from n5 on have, and with all of them.
fn with_options(plain: &Request) -> Vec<Request> {
    let plain = || plain.clone();
    let (output, softcap, page_size) = (OutputFormat::Bf16, Some(3.0), Some(64));
    let window = Window { left: Some(40), right: Some(10) };
    let (sinks, alibi) = (true, true);
    vec![
        Request { output, ..plain() },
        Request { window, lse: true, ..plain() },
        Request { window: Window::left(70), mask: Mask::Causal, ..plain() },
        Request { softcap, ..plain() },
        Request { sinks, lse: true, ..plain() },
        Request { alibi, ..plain() },
        Request { page_size, scales: Scales::all(Granularity::Row), ..plain() },
        Request { output, window, softcap, sinks, alibi, page_size, lse: true, ..plain() },
    ]
}

/// Every rung, with each of its toggles flipped, and with every feature that it has.
pub(super) fn requests(quick: bool) -> Vec<Request> {
    let lengths = |queries, keys| Lengths { queries, keys };
    let mut all = Vec::new();
    for rung in LADDER {
        let plain = |shape| Request {
            rung: Some(rung.id.to_owned()),
            format: rung.formats.first().copied().unwrap_or(Format::E4m3),
            ..Request::new(shape)
        };
        let few = Shape::equal(1, 2, 100, 64);
        all.push(plain(few.clone()));
        all.push(plain(Shape::equal(1, 1, 33, 64)));
        if !quick {
            all.push(plain(Shape::equal(2, 8, 256, 64)));
        }
        for toggle in rung.toggles {
            let toggles = vec![(toggle.name.to_owned(), !rung.setting(toggle.name))];
            all.push(Request { toggles, ..plain(few.clone()) });
        }
        let grouped = |queries, keys| {
            Shape { kv_heads: 2, ..Shape::equal(1, 4, 1, 64) }.with(vec![lengths(queries, keys)])
        };
        all.push(Request { splits: Splits::None, ..plain(grouped(70, 130)) });
        all.push(Request { layout: Layout::Bshd, ..plain(few.clone()) });
        if rung.can(Feature::Causal) {
            for (queries, keys) in [(70, 130), (130, 70)] {
                all.push(Request { mask: Mask::Causal, lse: true, ..plain(grouped(queries, keys)) });
            }
        }
        if rung.can(Feature::FineScales) {
            for granularity in Granularity::ALL {
                let scales = Scales::all(granularity);
                all.push(Request { scales, lse: true, ..plain(grouped(70, 130)) });
                let long = Shape { dim: 128, ..grouped(70, 130) };
                all.push(Request { scales, mask: Mask::Causal, ..plain(long) });
            }
        }
        if rung.can(Feature::Varlen) {
            let shape =
                grouped(1, 1).with(vec![lengths(5, 70), lengths(80, 3), lengths(1, 130), lengths(7, 0)]);
            for mask in [Mask::Full, Mask::Causal] {
                all.push(Request { mask, layout: Layout::Bshd, lse: true, ..plain(shape.clone()) });
            }
        }
        if rung.can(Feature::Split) {
            for splits in [Splits::Auto, Splits::Count(2)] {
                all.push(Request { splits, lse: true, ..plain(grouped(1, 300)) });
            }
            let shape = grouped(1, 1).with(vec![lengths(1, 300), lengths(2, 30), lengths(1, 0)]);
            all.push(Request { mask: Mask::Causal, layout: Layout::Bshd, ..plain(shape) });
        }
        if rung.can(Feature::Window) {
            for shape in [grouped(70, 130), grouped(1, 300)] {
                all.extend(with_options(&plain(shape)));
            }
        }
        for format in rung.formats.iter().skip(1) {
            all.push(Request { format: *format, ..plain(few.clone()) });
        }
    }
    all
}
