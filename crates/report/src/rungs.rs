//! Draws the attention ladder: predicted time of each rung, with lower bounds as lines. Uses only records.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts of bars become places in a picture"
)]

use std::fmt::Write as _;

use warpproof_model::bound::Consumed;

use super::error::ViewError;
use super::escape::markup;
use super::evidence::Evidence;
use warpproof_evidence::record::{Figure, FigureKind, Outcome, Stage, StepRecord};
use warpproof_evidence::vocabulary as name;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 62.0;
/// Room for the names of the lines.
const RIGHT: f64 = 196.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 78.0;
/// Minimum distance of two names of lines.
const APART: f64 = 17.0;

/// A bound, drawn as a line.
struct Line {
    us: f64,
    label: String,
    class: &'static str,
}

/// A rung.
struct Bar {
    name: String,
    /// Predicted microseconds from the schedule, warm.
    us: Option<f64>,
    /// The bound of the binding resource, warm.
    bound: Option<f64>,
}

fn figure<'s>(step: &'s StepRecord, wanted: &str, at: &str) -> Option<&'s Figure> {
    let same = |figure: &&Figure| figure.name == wanted && figure.at.as_deref().unwrap_or_default() == at;
    step.figures.iter().find(|figure| same(figure) && figure.kind == FigureKind::Predicted)
}

fn value(step: &StepRecord, wanted: &str, at: &str) -> Option<f64> {
    figure(step, wanted, at).map(|figure| figure.value.get())
}

/// The picture of a run recorded by `warpproof attention ladder`, as SVG for light and dark pages.
pub fn rungs(evidence: &Evidence, run: &str) -> Result<String, ViewError> {
    let (_, record) = evidence.run(run)?;
    let (mut bars, mut lines) = (Vec::new(), Vec::new());
    let device = record.host.get(name::MODEL_DEVICE).map_or("", String::as_str);
    for candidate in evidence.candidates_of(run) {
        let judged = evidence.judged(run, candidate)?;
        let Some((_, step)) = judged.stage(Stage::Model) else { continue };
        if candidate == name::PROBLEM {
            // With a warm cache nothing need come from DRAM.
            let cold = Consumed::Dram.to_string();
            let floor = |figure: &&Figure| figure.name == name::FLOOR && figure.kind == FigureKind::Predicted;
            for figure in step.figures.iter().filter(floor) {
                let at = figure.at.as_deref().unwrap_or_default();
                if at == cold {
                    continue;
                }
                lines.push(Line {
                    us: figure.value.get(),
                    label: format!("{at}, lower bound"),
                    class: "bound",
                });
            }
            let launch = value(step, name::LAUNCH, "");
            lines.extend(launch.map(|us| Line { us, label: "an empty launch".to_owned(), class: "launch" }));
        } else if step.reason == name::TRITON {
            let label = candidate.replace("attention_", "Triton ").replace("_64x64", "");
            let bound =
                || Some((value(step, name::LATENCY_BOUND, name::WARM)?, format!("{label}, lower bound")));
            let found = value(step, name::SCHEDULE, name::WARM).map(|us| (us, label.clone())).or_else(bound);
            lines.extend(found.map(|(us, label)| Line { us, label, class: "peer" }));
        } else if step.outcome == Outcome::Pass {
            let name = candidate.to_owned();
            let us = value(step, name::SCHEDULE, name::WARM);
            bars.push(Bar { name, us, bound: value(step, name::LATENCY_BOUND, name::WARM) });
        }
    }
    let shape = record.task.strip_prefix(name::LADDER_TASK).unwrap_or_default().trim();
    Ok(draw(&bars, lines, &format!("{shape} on an {device}")))
}

fn shown(us: f64) -> String {
    if us < 10.0 { format!("{us:.2}") } else { format!("{us:.1}") }
}

fn draw(bars: &[Bar], mut lines: Vec<Line>, subject: &str) -> String {
    let all = || {
        let bars = bars.iter().flat_map(|bar| [bar.us, bar.bound]).flatten();
        bars.chain(lines.iter().map(|line| line.us)).filter(|us| *us > 0.0)
    };
    let least = all().fold(f64::INFINITY, f64::min).min(1.0);
    let most = all().fold(1.0, f64::max);
    let (low, high) = ((least / 1.4).log10(), (most * 1.25).log10());
    let y = |us: f64| HEIGHT - BOTTOM - (us.max(1e-9).log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let title = format!("Predicted time of each rung: {subject}");
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        markup(&title)
    );
    out.push_str(STYLE);
    let _ = writeln!(out, "<rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\"/>");
    let _ = writeln!(out, "<text class=\"title\" x=\"20\" y=\"28\">{}</text>", markup(&title));
    let _ = writeln!(
        out,
        "<text class=\"note\" x=\"20\" y=\"47\">predicted microseconds with a warm L2, without launch overhead, from \
         the schedule of the machine code; notch: binding resource; nothing was measured</text>"
    );
    axis(&mut out, (low, high), &y);
    let step = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    let mut values = String::new();
    for (index, bar) in bars.iter().enumerate() {
        let x = LEFT + step * index as f64;
        let (left, wide) = (x + step * 0.18, step * 0.64);
        let middle = x + step / 2.0;
        if let Some(us) = bar.us {
            let top = y(us);
            let _ = writeln!(
                out,
                "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{:.1}\"/>",
                HEIGHT - BOTTOM - top
            );
            // Drawn after the lines, which would cross them.
            let _ = writeln!(
                values,
                "<text class=\"value\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>",
                top - 6.0,
                shown(us)
            );
        }
        if let Some(bound) = bar.bound {
            let at = y(bound);
            let _ = writeln!(
                out,
                "<line class=\"notch\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                left + wide
            );
        }
        let foot = HEIGHT - BOTTOM + 16.0;
        let _ = writeln!(
            out,
            "<text class=\"rung\" transform=\"translate({middle:.1} {foot:.1}) rotate(-28)\">{}</text>",
            markup(&bar.name)
        );
    }
    lines.sort_by(|a, b| b.us.total_cmp(&a.us));
    let mut lowest = TOP - APART;
    for line in &lines {
        let at = y(line.us);
        // Labels keep their distance; the line itself stays at its value.
        let label = at.max(lowest + APART);
        lowest = label;
        let end = WIDTH - RIGHT;
        let _ = writeln!(
            out,
            "<path class=\"line {}\" d=\"M{LEFT} {at:.1}H{end}L{:.1} {label:.1}\"/>",
            line.class,
            end + 12.0
        );
        let _ = writeln!(
            out,
            "<text class=\"name {}\" x=\"{:.1}\" y=\"{:.1}\">{} {}</text>",
            line.class,
            end + 16.0,
            label + 4.0,
            shown(line.us),
            markup(&line.label)
        );
    }
    out.push_str(&values);
    out.push_str("</svg>\n");
    out
}

fn axis(out: &mut String, (low, high): (f64, f64), y: &dyn Fn(f64) -> f64) {
    let mut decade = 10f64.powf(low.floor());
    while decade.log10() < high {
        let ticks = [1.0, 2.0, 5.0].map(|step| step * decade);
        for tick in ticks.into_iter().filter(|tick| (low..=high).contains(&tick.log10())) {
            let at = y(tick);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{tick}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0
            );
        }
        decade *= 10.0;
    }
    let _ = writeln!(
        out,
        "<text class=\"tick\" transform=\"translate(18 {:.1}) rotate(-90)\" style=\"text-anchor:middle\">µs, logarithmic</text>",
        f64::midpoint(TOP, HEIGHT - BOTTOM)
    );
}

/// Its own background, so that it is readable on pages of either color; darker if the reader prefers that.
const STYLE: &str = "<style>
svg{font-family:system-ui,sans-serif;--ground:#fff;--ink:#1b1f24;--dim:#57606a;--grid:#e4e7eb;--bar:#3b7dd8;--notch:#0b2f5e;--bound:#b3261e;--launch:#7a5900;--peer:#6b3fa0}
@media (prefers-color-scheme:dark){svg{--ground:#161b22;--ink:#e6edf3;--dim:#9da7b3;--grid:#2b323b;--bar:#4c8fea;--notch:#d6e6ff;--bound:#ff7b72;--launch:#e3b341;--peer:#c297ff}}
.ground{fill:var(--ground)}.title{font-size:17px;font-weight:600;fill:var(--ink)}.note{font-size:11px;fill:var(--dim)}
.grid{stroke:var(--grid)}.tick{font-size:11px;fill:var(--dim);text-anchor:end}.bar{fill:var(--bar)}
.notch{stroke:var(--notch);stroke-width:2.5}.value{font-size:12px;font-weight:600;fill:var(--ink);text-anchor:middle;stroke:var(--ground);stroke-width:3px;paint-order:stroke}
.rung{font-size:11.5px;fill:var(--ink);text-anchor:end}.line{fill:none;stroke-width:1.5;stroke-dasharray:6 4}
.name{font-size:11.5px}.line.bound{stroke:var(--bound)}.name.bound{fill:var(--bound)}
.line.launch{stroke:var(--launch);stroke-dasharray:2 4}.name.launch{fill:var(--launch)}
.line.peer{stroke:var(--peer)}.name.peer{fill:var(--peer)}
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lines_and_names_are_drawn() {
        let bar = |name: &str, us| Bar { name: name.to_owned(), us, bound: Some(2.0) };
        let line = |us, label: &str| Line { us, label: label.to_owned(), class: "bound" };
        let lines = vec![line(0.5, "low & slow"), line(0.51, "near"), line(1.6, "launch")];
        let drawn =
            draw(&[bar("h0", Some(40.0)), bar("n9", Some(4.25)), bar("n?", None)], lines, "B2 on an L4");
        assert_eq!(drawn.matches("class=\"bar\"").count(), 2);
        assert_eq!(drawn.matches("class=\"notch\"").count(), 3);
        assert!(drawn.contains(">4.25</text>") && drawn.contains(">40.0</text>"));
        assert!(drawn.contains("Predicted") && drawn.contains("nothing was measured"));
        assert!(drawn.contains("0.50 low &amp; slow"), "{drawn}");
        assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));
        // Without data there is still a picture.
        assert!(draw(&[], Vec::new(), "").contains("</svg>"));
    }
}
