//! Which kernels the library contains.
//!
//! A kernel is a source with its macros. For the shapes of [`SERVING`], the library has the kernel that the dispatch table
//! chooses; for everything else that it supports, a general kernel: rung n5, with blocks of 64 rows, or of 16 with split
//! keys.

use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape};
use warpproof_kernels::{Format, Plan, PlanError, Request, Scales};
use warpproof_model::Device;

/// Shapes of inference servers: sequences, query heads, key heads, queries, keys, elements of a row.
pub const SERVING: [[usize; 6]; 12] = [
    [2, 8, 8, 256, 256, 64],
    [1, 8, 8, 512, 512, 64],
    [1, 8, 8, 2048, 2048, 64],
    [1, 64, 8, 1024, 1024, 64],
    [1, 32, 8, 512, 512, 128],
    [1, 32, 8, 2048, 2048, 128],
    [4, 32, 8, 256, 1024, 128],
    [1, 40, 40, 4096, 4096, 128],
    [1, 64, 8, 1, 4096, 64],
    [1, 32, 8, 1, 4096, 128],
    [16, 32, 8, 1, 1024, 128],
    [64, 32, 8, 1, 2048, 128],
];

/// Row lengths of the general kernels.
pub const DIMS: [usize; 2] = [64, 128];

/// The rung of the general kernels.
const GENERAL: &str = "n5";

/// The macro of kernels for as many key heads as query heads; without it they compute the same, with a division.
const NOT_GROUPED: &str = "GROUPED=0";

/// A shape of [`SERVING`].
pub fn shape([batch, heads, kv_heads, queries, keys, dim]: [usize; 6]) -> Shape {
    Shape { heads, kv_heads, dim, sequences: vec![Lengths { queries, keys }; batch] }
}

/// The name of a plan's kernels: the source and the macros.
pub fn name(plan: &Plan) -> String {
    let mut name = plan.fit.source.to_owned();
    for define in &plan.defines {
        name.push(' ');
        name.push_str(define);
    }
    name
}

/// The plans for a request, best first: the one of the dispatch table, then the general one.
pub fn plans(request: &Request, device: &Device) -> Result<[Plan; 2], PlanError> {
    Ok([Plan::new(request, device)?, general(request, device)?])
}

fn general(request: &Request, device: &Device) -> Result<Plan, PlanError> {
    let request = Request { rung: Some(GENERAL.to_owned()), ..request.clone() };
    let mut plan = Plan::new(&request, device)?;
    plan.defines.retain(|define| define != NOT_GROUPED);
    Ok(plan)
}

/// A plan for each kernel of the library, in a fixed order, each kernel once.
pub fn kernels(device: &Device) -> Result<Vec<Plan>, PlanError> {
    let mut all: Vec<Plan> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut add = |plan: Plan| {
        let name = name(&plan);
        if !names.contains(&name) {
            names.push(name);
            all.push(plan);
        }
    };
    for request in general_requests() {
        add(general(&request, device)?);
    }
    for serving in SERVING {
        for mask in [Mask::Full, Mask::Causal] {
            add(Plan::new(&Request { mask, ..Request::new(shape(serving)) }, device)?);
        }
    }
    Ok(all)
}

/// A request for each general kernel.
fn general_requests() -> Vec<Request> {
    let mut all = Vec::new();
    let switch = [false, true];
    for dim in DIMS {
        for decode in switch {
            for mask in [Mask::Full, Mask::Causal] {
                for lengths_on_device in switch {
                    for (format, granularity, lse) in [
                        (Format::E4m3, Granularity::Head, false),
                        (Format::E4m3, Granularity::Head, true),
                        (Format::E4m3, Granularity::Block, false),
                        (Format::E4m3, Granularity::Block, true),
                        (Format::E5m2, Granularity::Head, false),
                    ] {
                        let queries = if decode { 1 } else { 1024 };
                        all.push(Request {
                            mask,
                            format,
                            scales: Scales::all(granularity),
                            lse,
                            lengths_on_device,
                            layout: Layout::Bshd,
                            ..Request::new(shape([2, 8, 8, queries, 1024, dim]))
                        });
                    }
                }
            }
        }
    }
    all
}
