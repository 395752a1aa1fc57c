//! The roofline: operations per second over operations per byte, with the roofs of the device.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts become coordinates in a picture; rounding beyond 2^53 is invisible"
)]

use std::fmt::Write as _;

use warpproof_model::{Device, Pipe};

use super::super::{Explanation, Scheduled};
use super::{WIDTH, origin};
use warpproof_report::escape::markup;

const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 50.0;

/// A level of memory: its name, bytes of the launch, and bytes per microsecond.
type Level = (&'static str, u64, f64);

/// Axes in powers of ten.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        let (low, high) = self.x;
        LEFT + (value.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = self.y;
        HEIGHT - BOTTOM - (value.log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The picture, or why it is missing.
pub(super) fn figure(explanation: &Explanation) -> String {
    let Some(device) = Device::named(&explanation.subject.device_id) else {
        return "<p>The device table has no peak rates for this device.</p>\n".to_owned();
    };
    let work = &explanation.counted.work;
    let tensor: u64 = work.tensor.iter().fold(0, |sum, (_, fma)| sum.saturating_add(*fma));
    let pipe = |pipe: Pipe| -> u64 {
        work.instructions.iter().filter(|(one, _)| *one == pipe).map(|(_, count)| *count).sum()
    };
    let lanes = 32 * (pipe(Pipe::Fma) + 2 * pipe(Pipe::Half) + pipe(Pipe::Double));
    let operations = 2.0 * (tensor as f64 + lanes as f64);
    let cycles = f64::from(device.multiprocessors.value) * f64::from(device.boost_mhz.value);
    let levels: Vec<Level> = [
        Some(("DRAM, cold", work.dram_bytes, f64::from(device.bandwidth_gb_s.value) * 1e3)),
        device.rates.l2_bytes.map(|rate| ("L2", work.l2_bytes, rate.value * cycles)),
    ]
    .into_iter()
    .flatten()
    .filter(|(_, bytes, _)| *bytes > 0)
    .collect();
    if operations <= 0.0 || levels.is_empty() {
        return "<p>No roofline: the launch has no multiply-adds, or moves no bytes.</p>\n".to_owned();
    }
    // Peak operations per microsecond.
    let mut roofs: Vec<(String, f64)> = Vec::new();
    for (kind, _) in &work.tensor {
        if let Some(rate) = device.rates.tensor(*kind) {
            roofs.push((format!("tensor cores, {kind:?}"), 2.0 * rate * cycles));
        }
    }
    roofs.push(("FMA pipe".to_owned(), 2.0 * device.rates.fma.value * cycles));
    let bounds = &explanation.predicted.bounds;
    let mut times = vec![("bounded", "bound", bounds.cold_us(), bounds.warm_us())];
    if let Scheduled::Known(timed) = &explanation.predicted.schedule {
        times.push(("schedule", "schedule", timed.cold.us, timed.warm.us));
    }
    let axes = axes(operations, &levels, &roofs, &times);
    let mut out = format!(
        "<figure>\n<figcaption>Operations per second over operations per byte <small class=\"kind\">roofs from the device table; \
         operations counted, times predicted</small></figcaption>\n<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         role=\"img\" aria-label=\"roofline\">\n"
    );
    grid(&mut out, &axes);
    draw_roofs(&mut out, &axes, &levels, &roofs);
    for (name, bytes, _) in &levels {
        let intensity = operations / *bytes as f64;
        for (class, what, cold, warm) in &times {
            // Memory throughput uses the cold time, cache throughput the warm time.
            let us = if *name == "L2" { *warm } else { *cold };
            if us > 0.0 {
                let (x, y) = (axes.x(intensity), axes.y(operations / us));
                // More bytes come through the cache than from memory, so its marks are further left: labels go
                // outward.
                let (label, anchor) = if *name == "L2" { (x - 11.0, "end") } else { (x + 11.0, "start") };
                let _ = writeln!(
                    out,
                    "<circle class=\"mark {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\"/><text class=\"value\" x=\"{label:.1}\" \
                     y=\"{:.1}\" text-anchor=\"{anchor}\">{what} by {name}, {us:.2} µs</text>",
                    y + 4.0
                );
            }
        }
    }
    let _ = writeln!(
        out,
        "</svg>\n<p>An operation is half a multiply-add: {} on tensor cores, {} lanes of FMA pipes (instructions of {}).</p>\n\
         </figure>",
        warpproof_model::grouped(tensor),
        warpproof_model::grouped(lanes),
        origin(explanation.counted.instructions_of)
    );
    out
}

/// Whole powers of ten around everything that is drawn.
fn axes(
    operations: f64,
    levels: &[Level],
    roofs: &[(String, f64)],
    times: &[(&str, &str, f64, f64)],
) -> Axes {
    let best = roofs.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let mut xs = Vec::new();
    let mut ys: Vec<f64> = roofs.iter().map(|(_, rate)| *rate).collect();
    for (_, bytes, rate) in levels {
        xs.push(operations / *bytes as f64);
        // Where the roof of the level meets the highest roof.
        xs.push(best / rate);
    }
    for (_, _, cold, warm) in times {
        ys.extend([cold, warm].into_iter().filter(|us| **us > 0.0).map(|us| operations / us));
    }
    let range = |values: &[f64]| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min).log10();
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max).log10();
        let (low, high) = ((low - 0.2).floor(), (high + 0.2).ceil());
        if low.is_finite() && high.is_finite() { (low, high.max(low + 1.0)) } else { (0.0, 1.0) }
    };
    Axes { x: range(&xs), y: range(&ys) }
}

fn powers((low, high): (f64, f64)) -> Vec<i32> {
    (-30..=30).filter(|power| f64::from(*power) >= low && f64::from(*power) <= high).collect()
}

fn grid(out: &mut String, axes: &Axes) {
    for power in powers(axes.x) {
        let x = axes.x(10f64.powi(power));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\"/><text class=\"tick\" x=\"{x:.1}\" \
             y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 18.0,
            plain(power)
        );
    }
    for power in powers(axes.y) {
        let y = axes.y(10f64.powi(power));
        // Operations per microsecond are millions per second: 10^6 of them are a teraflop.
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/><text class=\"tick\" x=\"{:.1}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            plain(power - 6)
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations per byte</text><text class=\"tick\" \
         x=\"{:.1}\" y=\"16\">Tera-operations per second</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0,
        LEFT - 50.0
    );
}

/// A power of ten, written out if short.
fn plain(power: i32) -> String {
    match power {
        -3..=-1 => format!("{}", 10f64.powi(power)),
        0..=4 => format!("{:.0}", 10f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

fn draw_roofs(out: &mut String, axes: &Axes, levels: &[Level], roofs: &[(String, f64)]) {
    let best = roofs.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let (first, last) = (10f64.powf(axes.x.0), 10f64.powf(axes.x.1));
    let floor = 10f64.powf(axes.y.0);
    for (name, _, rate) in levels {
        let start = (floor / rate).max(first);
        let end = (best / rate).min(last);
        if start >= end {
            continue;
        }
        let (x1, y1, x2, y2) = (axes.x(start), axes.y(start * rate), axes.x(end), axes.y(end * rate));
        // Low, where no mark is expected.
        let middle = start.log10() * 0.92 + end.log10() * 0.08;
        let (x, y) = (axes.x(10f64.powf(middle)), axes.y(10f64.powf(middle) * rate));
        let turn = (y2 - y1).atan2(x2 - x1).to_degrees();
        let _ = writeln!(
            out,
            "<line class=\"roof\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/><text class=\"roof-label\" \
             x=\"{x:.1}\" y=\"{:.1}\" transform=\"rotate({turn:.1} {x:.1} {y:.1})\">{name}, {:.0} GB/s</text>",
            y - 8.0,
            rate / 1e3
        );
    }
    let fastest = levels.iter().map(|(_, _, rate)| *rate).fold(0.0, f64::max);
    for (name, rate) in roofs {
        let start = (rate / fastest).max(first);
        let (x1, x2, y) = (axes.x(start.min(last)), axes.x(last), axes.y(*rate));
        let class = if *rate < best { "roof low" } else { "roof" };
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y:.1}\" x2=\"{x2:.1}\" y2=\"{y:.1}\"/><text class=\"roof-label\" \
             x=\"{x2:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}, {:.0} Tera-operations per second</text>",
            y - 7.0,
            markup(name),
            rate / 1e6
        );
    }
}
