//! Which kernels the library contains.
//!
//! For the shapes of [`SERVING`], the library has the kernel that the dispatch table chooses; for everything else that it
//! supports, a general kernel: rung n5, with blocks of 64 rows, or of 16 with split keys. General kernels write the
//! log-sum-exp; if it is not requested, the workspace has a place for it. Kernels with windows, soft caps, sinks, ALiBi or pages are
//! there in the combinations that models use.

use warpproof_kernels::dispatch::SERVING;
use warpproof_kernels::format::OutputFormat;
use warpproof_kernels::inputs::TensorName;
use warpproof_kernels::problem::{Granularity, Layout, Mask, Shape, Window};
use warpproof_kernels::quantize::{Element, Quantizer};
use warpproof_kernels::unsmooth::Unsmooth;
use warpproof_kernels::{Format, Plan, PlanError, Request, Scales};
use warpproof_model::Device;

/// Row lengths of the general kernels.
pub const DIMS: [usize; 4] = [64, 96, 128, 256];

/// The rung of the general kernels.
const GENERAL: &str = "n5";

/// The macro of kernels for as many key heads as query heads; without it they compute the same, with a division.
const NOT_GROUPED: &str = "GROUPED=0";

/// A source with its macros: one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernels {
    /// The file.
    pub source: &'static str,
    /// `NAME=VALUE`.
    pub defines: Vec<String>,
}

impl Kernels {
    /// The source and the macros in one line.
    pub fn name(&self) -> String {
        std::iter::once(self.source)
            .chain(self.defines.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The kernels of a plan.
    pub fn of(plan: &Plan) -> Kernels {
        Kernels { source: plan.fit.source, defines: plan.defines.clone() }
    }

    /// The kernels of a quantizer.
    pub fn of_quantizer(plan: &Quantizer) -> Kernels {
        Kernels { source: Quantizer::SOURCE, defines: plan.defines.clone() }
    }

    /// The kernel that corrects the log-sum-exp of smoothed keys.
    pub fn of_unsmooth(plan: &Unsmooth) -> Kernels {
        Kernels { source: Unsmooth::SOURCE, defines: plan.defines.clone() }
    }
}

/// The plans for a request, best first: the one of the dispatch table, then the general one.
pub fn plans(request: &Request, device: &Device) -> Result<[Plan; 2], PlanError> {
    Ok([Plan::new(request, device)?, general(request, device)?])
}

fn general(request: &Request, device: &Device) -> Result<Plan, PlanError> {
    let request = Request { rung: Some(GENERAL.to_owned()), lse: true, ..request.clone() };
    let mut plan = Plan::new(&request, device)?;
    plan.defines.retain(|define| define != NOT_GROUPED);
    Ok(plan)
}

/// All kernels of the library, in a fixed order, each once.
pub fn kernels(device: &Device) -> Result<Vec<Kernels>, PlanError> {
    let mut all: Vec<Kernels> = Vec::new();
    let mut add = |kernels: Kernels| {
        if !all.contains(&kernels) {
            all.push(kernels);
        }
    };
    for request in general_requests() {
        let plan = general(&request, device)?;
        add(Kernels::of(&plan));
        for element in [Element::F16, Element::Bf16] {
            for smooth in [false, true] {
                let quantizer = Quantizer::new(&request.quantize(TensorName::Q, element, smooth), device)?;
                add(Kernels::of_quantizer(&quantizer));
            }
        }
        add(Kernels::of_unsmooth(&Unsmooth::new(&plan)?));
    }
    for request in rare_requests() {
        add(Kernels::of(&general(&request, device)?));
    }
    for serving in SERVING {
        for mask in [Mask::Full, Mask::Causal] {
            add(Kernels::of(&Plan::new(&Request { mask, ..Request::new(Shape::of(serving)) }, device)?));
        }
    }
    Ok(all)
}

/// A request for each general kernel.
fn general_requests() -> Vec<Request> {
    use {
        Format::E4m3, Format::E5m2, Granularity::Block, Granularity::Head, OutputFormat::Bf16,
        OutputFormat::F16,
    };
    const KINDS: [(Format, Granularity, OutputFormat); 5] =
        [(E4m3, Head, F16), (E4m3, Head, Bf16), (E4m3, Block, F16), (E4m3, Block, Bf16), (E5m2, Head, F16)];
    let mut all = Vec::new();
    for dim in DIMS {
        for queries in [1024, 1] {
            for mask in [Mask::Full, Mask::Causal] {
                for lengths_on_device in [false, true] {
                    for (format, granularity, output) in KINDS {
                        all.push(Request {
                            mask,
                            format,
                            output,
                            scales: Scales::all(granularity),
                            lengths_on_device,
                            layout: Layout::Bshd,
                            ..Request::new(Shape::of([2, 8, 8, queries, 1024, dim]))
                        });
                    }
                }
            }
        }
    }
    all
}

/// A request for pages, and for each combination of window, soft cap, sinks and ALiBi that models use: Mistral, gpt-oss, Gemma 2,
/// BLOOM and MPT.
fn rare_requests() -> Vec<Request> {
    let mut all = Vec::new();
    for request in general_requests() {
        if request.format == Format::E4m3 && request.mask == Mask::Causal && request.lengths_on_device {
            all.push(Request { page_size: Some(64), ..request.clone() });
        }
        let rare = request.mask == Mask::Causal && request.scales.q == Granularity::Block;
        if rare {
            // A window over most keys, so that they are split for one query.
            let (window, softcap) = (Window::left(1000), Some(1.0));
            all.extend([
                Request { window, ..request.clone() },
                Request { sinks: true, ..request.clone() },
                Request { window, sinks: true, ..request.clone() },
                Request { softcap, ..request.clone() },
                Request { softcap, window, ..request.clone() },
                Request { alibi: true, ..request },
            ]);
        }
    }
    all
}
