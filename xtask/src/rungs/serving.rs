//! The tables of `book/src/attention/serving.md`: predicted times at the shapes of inference servers next to Triton's, and the share
//! of the tensor bound at sequences of 2048 rows.

use std::fmt::Write as _;

use warpproof_kernels::dispatch::SERVING;
use warpproof_kernels::plan::Request;
use warpproof_kernels::problem::{Mask, Shape};
use warpproof_ladder::serving::{Time, TritonFormat, ours, triton};
use warpproof_model::Device;
use warpproof_toolchain::Toolchain;

use crate::section::Section;

const TIMES: Section = Section { page: "book/src/attention/serving.md", name: "times", task: "rungs" };
const SHARES: Section = Section { page: "book/src/attention/serving.md", name: "shares", task: "rungs" };

/// Sequences and heads of 2048 rows and 64 elements, all keys visible or causal.
const LONG: [([usize; 2], Mask); 4] =
    [([1, 8], Mask::Full), ([1, 16], Mask::Full), ([4, 16], Mask::Full), ([1, 8], Mask::Causal)];

/// Compares the page with the predictions, or writes it.
pub(super) fn run(toolchain: &Toolchain, bless: bool) -> Result<(), String> {
    let device = Device::named("L4").ok_or("the L4 is not in the device table")?;
    TIMES.compare_or_write(&times(device, toolchain)?, bless)?;
    SHARES.compare_or_write(&shares(device, toolchain)?, bless)?;
    println!("rungs: {} shapes of inference servers predicted", SERVING.len());
    Ok(())
}

fn times(device: &'static Device, toolchain: &Toolchain) -> Result<String, String> {
    let mut text =
        "| shape | ours | µs | interval | Triton e4m3 µs | interval | ours / Triton e4m3 | Triton f16 µs | \
                    interval | ours / Triton f16 |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for serving in SERVING {
        let shape = Shape::of(serving);
        let named = |error: &dyn std::fmt::Display| format!("{shape}: {error}");
        let own = ours(&Request::new(shape.clone()), device, toolchain).map_err(|error| named(&error))?;
        let launches = if own.launches > 1 { " and merge" } else { "" };
        let _infallible = write!(text, "| {shape} | {}{launches} | {}", own.kernel, cells(&own));
        for format in [TritonFormat::E4m3, TritonFormat::F16] {
            let peer = triton(&shape, format, device, toolchain).map_err(|error| named(&error))?;
            let _infallible = write!(text, " | {} | {:.2}", cells(&peer), own.us / peer.us);
        }
        text.push_str(" |\n");
    }
    Ok(text)
}

/// The time and its interval, as cells.
fn cells(time: &Time) -> String {
    let (least, most) = time.interval();
    let shown = |us: f64| if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") };
    format!("{} | {} to {}", shown(time.us), shown(least), shown(most))
}

fn shares(device: &'static Device, toolchain: &Toolchain) -> Result<String, String> {
    let mut text =
        "| shape | kernel | µs | busy at its peak rate | issue slots left empty |\n|---|---|---:|---|---|\n"
            .to_owned();
    for ([batch, heads], mask) in LONG {
        let shape = Shape::equal(batch, heads, 2048, 64);
        let request = Request { mask, ..Request::new(shape.clone()) };
        let time = ours(&request, device, toolchain).map_err(|error| format!("{shape}: {error}"))?;
        let causal = if mask == Mask::Causal { ", causal" } else { "" };
        let listed = |all: &mut dyn Iterator<Item = (String, f64)>| {
            let shown = all.take(4).map(|(name, share)| format!("{name} {:.0} %", 100.0 * share));
            shown.collect::<Vec<String>>().join(", ")
        };
        let busy = listed(&mut time.busy.iter().map(|(resource, share)| (resource.to_string(), *share)));
        let lost = listed(&mut time.lost.iter().map(|(reason, share)| ((*reason).to_owned(), *share)));
        let _infallible =
            writeln!(text, "| {shape}{causal} | {} | {:.1} | {busy} | {lost} |", time.kernel, time.us);
    }
    Ok(text)
}
